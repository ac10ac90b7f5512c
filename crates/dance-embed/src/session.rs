//! Sessions of ONNX Runtime on one file of weights. There is one session per worker, each with one thread for whole
//! batches, as long as the copies of the weights fit. Otherwise there are fewer sessions, with more threads each.

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use dance::{Error, Result};
use ort::ep;
use ort::session::{Session, SessionInputValue};
use ort::value::{Tensor, ValueType};

use crate::encoder::Processor;
use crate::settings::{OutputSettings, Pooling};

/// Most bytes of all copies of the weights together; one copy is always allowed.
const MOST_WEIGHTS: u64 = 4 << 30;

/// Names of outputs with one embedding per input, the preferred first.
const POOLED: [&str; 5] = ["image_embeds", "text_embeds", "sentence_embedding", "embeddings", "pooler_output"];
/// Names of outputs with one embedding per token.
const BY_TOKEN: [&str; 2] = ["last_hidden_state", "token_embeddings"];

/// Sessions with the names of their inputs and their output.
pub(crate) struct Sessions {
    free: Mutex<Vec<Session>>,
    returned: Condvar,
    /// The number of sessions.
    pub(crate) count: usize,
    inputs: Vec<String>,
    output: String,
    /// The treatment of outputs.
    pub(crate) settings: OutputSettings,
}

/// A batch, as numbers.
pub(crate) enum Batch {
    /// The pixels of `count` pictures; `sides` are rows and columns.
    Pictures { count: usize, sides: (usize, usize), pixels: Vec<f32> },
    /// The tokens of `count` texts, padded to one length. The mask is 0 for padding.
    Texts { count: usize, length: usize, tokens: Vec<i64>, mask: Vec<i64> },
}

impl Sessions {
    /// Opens as many sessions as the weights, which have `size` bytes, and the threads allow.
    pub(crate) fn open(
        weights: &Path,
        size: u64,
        threads: usize,
        processor: Processor,
        settings: OutputSettings,
    ) -> Result<Self> {
        let copies = (MOST_WEIGHTS / size.max(1)).clamp(1, threads as u64) as usize;
        let count = if processor == Processor::Cuda { 1 } else { copies };
        let wrong = |error: &dyn std::fmt::Display| problem(weights, error);
        // One session, with its share of the threads.
        let open = || -> Result<Session> {
            let builder = Session::builder().map_err(|error| wrong(&error))?;
            let builder = builder.with_intra_threads((threads / count).max(1)).map_err(|error| wrong(&error))?;
            let builder = builder.with_inter_threads(1).map_err(|error| wrong(&error))?;
            let mut builder = builder.with_intra_op_spinning(count == 1).map_err(|error| wrong(&error))?;
            if processor == Processor::Cuda {
                let provider = ep::CUDA::default().build().error_on_failure();
                builder = builder.with_execution_providers([provider]).map_err(|error| {
                    Error::Data(format!(
                        "this ONNX Runtime cannot use CUDA ({}); `pip install onnxruntime-gpu`, or take the CPU",
                        line(&error)
                    ))
                })?;
            }
            builder.commit_from_file(weights).map_err(|error| wrong(&error))
        };
        // The first session has the names of inputs and outputs; the others are copies.
        let first = open()?;
        let inputs = first.inputs().iter().map(|input| input.name().to_owned()).collect();
        let (output, pooling) = choose(&first, settings.pooling).map_err(|text| Error::format(weights, text))?;
        let mut free = vec![first];
        for _ in 1..count {
            free.push(open()?);
        }
        let settings = OutputSettings { pooling, ..settings };
        Ok(Self { free: Mutex::new(free), returned: Condvar::new(), count, inputs, output, settings })
    }

    /// Runs a batch on a free session, and returns one row of numbers for each input.
    pub(crate) fn run(&self, weights: &Path, batch: Batch) -> Result<Vec<f32>> {
        let mut session = self.take();
        let out = self.run_on(&mut session, weights, batch);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        self.returned.notify_one();
        out
    }

    /// Waits for a free session.
    fn take(&self) -> Session {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match free.pop() {
                Some(session) => return session,
                None => free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Runs a batch on a session.
    fn run_on(&self, session: &mut Session, weights: &Path, batch: Batch) -> Result<Vec<f32>> {
        let wrong = |error: ort::Error| problem(weights, &error);
        let mut inputs: Vec<(String, SessionInputValue<'_>)> = Vec::new();
        let mut put = |name: &str, value: SessionInputValue<'static>| inputs.push((name.to_owned(), value));
        // Inputs are matched by name.
        let (count, mask) = match batch {
            Batch::Pictures { count, sides: (rows, columns), pixels } => {
                let [name] = self.inputs.as_slice() else {
                    return Err(Error::format(
                        weights,
                        format!("takes {}; one input, pictures, is needed", self.inputs.join(", ")),
                    ));
                };
                put(name, Tensor::from_array(([count, 3, rows, columns], pixels)).map_err(wrong)?.into());
                (count, None)
            }
            Batch::Texts { count, length, tokens, mask } => {
                for name in &self.inputs {
                    let values = match name.as_str() {
                        "input_ids" => tokens.clone(),
                        "attention_mask" => mask.clone(),
                        "token_type_ids" => vec![0; tokens.len()],
                        other => {
                            return Err(Error::format(weights, format!("takes `{other}`, which no tokens are")));
                        }
                    };
                    put(name, Tensor::from_array(([count, length], values)).map_err(wrong)?.into());
                }
                (count, Some(mask))
            }
        };
        // The output is pooled to one row per input, and normalised if that is set.
        let outputs = session.run(inputs).map_err(wrong)?;
        let Some(value) = outputs.get(&self.output) else {
            return Err(Error::format(weights, format!("gave no `{}`", self.output)));
        };
        let (shape, numbers) = value.try_extract_tensor::<f32>().map_err(wrong)?;
        let shape: Vec<usize> = shape.iter().map(|&size| size as usize).collect();
        let pooled = pooled(&shape, numbers, count, self.settings.pooling, mask.as_deref());
        let mut rows = pooled.ok_or_else(|| {
            Error::format(weights, format!("gave `{}` of the shape {shape:?} for {count} inputs", self.output))
        })?;
        if self.settings.normalize {
            let width = rows.len() / count.max(1);
            rows.chunks_exact_mut(width.max(1)).for_each(to_length_one);
        }
        Ok(rows)
    }

    /// Returns whether the encoder takes a mask of the tokens.
    pub(crate) fn has_mask(&self) -> bool {
        self.inputs.iter().any(|input| input == "attention_mask")
    }
}

/// Chooses the output, and the pooling that it needs.
fn choose(session: &Session, pooling: Pooling) -> Result<(String, Pooling), String> {
    let sizes = |kind: &ValueType| match kind {
        ValueType::Tensor { shape, .. } => shape.len(),
        _ => 0,
    };
    let outputs: Vec<(&str, usize)> =
        session.outputs().iter().map(|output| (output.name(), sizes(output.dtype()))).collect();
    let named = |names: &[&str]| names.iter().find_map(|name| outputs.iter().find(|(found, _)| found == name)).copied();
    let shaped = |sizes: usize| outputs.iter().find(|(_, found)| *found == sizes).copied();
    let by_token = || named(&BY_TOKEN).or_else(|| shaped(3));
    let chosen = match pooling {
        Pooling::None => match named(&POOLED).or_else(|| shaped(2)) {
            Some(output) => Some((output, Pooling::None)),
            // Without a pooling, embeddings of tokens or of places in a picture are averaged.
            None => by_token().or_else(|| shaped(4)).map(|output| (output, Pooling::Mean)),
        },
        other => by_token().map(|output| (output, other)),
    };
    let names: Vec<&str> = outputs.iter().map(|(name, _)| *name).collect();
    let ((name, _), pooling) =
        chosen.ok_or_else(|| format!("gives {}; an embedding, or one per token, is needed", names.join(", ")))?;
    Ok((name.to_owned(), pooling))
}

/// Pools an output to one row for each of `count` inputs; `None` if its shape does not fit.
fn pooled(shape: &[usize], numbers: &[f32], count: usize, pooling: Pooling, mask: Option<&[i64]>) -> Option<Vec<f32>> {
    if shape.first() != Some(&count) || numbers.is_empty() {
        return None;
    }
    match (shape, pooling) {
        // One embedding per input.
        (&[_, _], Pooling::None) => Some(numbers.to_vec()),
        // One per token: the first, or the mean of those that the mask keeps.
        (&[_, length, width], Pooling::First) => {
            Some(numbers.chunks_exact(length * width).flat_map(|rows| rows[..width].to_vec()).collect())
        }
        (&[_, length, width], Pooling::Mean) => {
            let mut out = Vec::with_capacity(count * width);
            for (place, rows) in numbers.chunks_exact(length * width).enumerate() {
                let counts = |token: usize| {
                    mask.is_none_or(|mask| mask.get(place * length + token).is_some_and(|&bit| bit != 0))
                };
                let mut sums = vec![0.0f32; width];
                let mut tokens = 0usize;
                for (_, row) in rows.chunks_exact(width).enumerate().filter(|(token, _)| counts(*token)) {
                    tokens += 1;
                    sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
                }
                out.extend(sums.iter().map(|sum| sum / tokens.max(1) as f32));
            }
            Some(out)
        }
        // One per place in a picture.
        (&[_, width, rows, columns], Pooling::Mean) => {
            let places = rows * columns;
            let mean = |channel: &[f32]| channel.iter().sum::<f32>() / places as f32;
            let out: Vec<f32> = numbers.chunks_exact(places.max(1)).map(mean).collect();
            (out.len() == count * width).then_some(out)
        }
        _ => None,
    }
}

/// Scales a row to length 1; a row of zeros stays.
fn to_length_one(row: &mut [f32]) {
    let length = row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        for value in row {
            *value = (f64::from(*value) / length) as f32;
        }
    }
}

/// Writes an error in one line.
fn line(error: &dyn std::fmt::Display) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The error of weights that cannot be run.
fn problem(weights: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::format(weights, format!("ONNX Runtime cannot run it: {}", line(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_pooled_as_asked() {
        // Two inputs, two tokens, three numbers each.
        let numbers: Vec<f32> = (0..12u8).map(f32::from).collect();
        let shape = [2, 2, 3];
        let first = pooled(&shape, &numbers, 2, Pooling::First, None).unwrap();
        assert_eq!(first, [0.0, 1.0, 2.0, 6.0, 7.0, 8.0]);
        let mean = pooled(&shape, &numbers, 2, Pooling::Mean, Some(&[1, 1, 1, 0])).unwrap();
        assert_eq!(mean, [1.5, 2.5, 3.5, 6.0, 7.0, 8.0]);
        assert_eq!(pooled(&shape, &numbers, 3, Pooling::Mean, None), None);
        assert_eq!(pooled(&[2, 6], &numbers, 2, Pooling::Mean, None), None);
        assert_eq!(pooled(&[2, 6], &numbers, 2, Pooling::None, None).unwrap(), numbers);
        // Two channels of three places each, twice.
        assert_eq!(pooled(&[2, 2, 1, 3], &numbers, 2, Pooling::Mean, None).unwrap(), [1.0, 4.0, 7.0, 10.0]);
    }

    #[test]
    fn a_row_gets_length_one_and_zero_stays() {
        let mut row = [3.0, 4.0];
        to_length_one(&mut row);
        assert_eq!(row, [0.6, 0.8]);
        let mut zero = [0.0, 0.0];
        to_length_one(&mut zero);
        assert_eq!(zero, [0.0, 0.0]);
    }
}
