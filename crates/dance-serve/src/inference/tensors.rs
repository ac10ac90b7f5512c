//! Tensors of the Open Inference Protocol, as JSON and as bytes.

use std::fmt;

use dance::data::{Kind, Value};
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::json;
use serde_json::value::RawValue;

/// The values of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    Bytes(Vec<String>),
    Int64(Vec<i64>),
    Fp32(Vec<f32>),
    Fp64(Vec<f64>),
    Bool(Vec<bool>),
}

/// An output tensor with one dimension.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) name: &'static str,
    pub(super) data: Data,
    /// The values are behind the JSON.
    pub(super) binary: bool,
}

impl Tensor {
    pub(super) fn new(name: &'static str, data: Data) -> Self {
        Self { name, data, binary: false }
    }
}

impl Serialize for Tensor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Tensor", 4)?;
        object.serialize_field("name", self.name)?;
        object.serialize_field("datatype", self.data.datatype())?;
        object.serialize_field("shape", &[self.data.len()])?;
        if self.binary {
            object.serialize_field("parameters", &json!({ "binary_data_size": self.data.bytes() }))?;
        } else {
            match &self.data {
                Data::Bytes(values) => object.serialize_field("data", values)?,
                Data::Int64(values) => object.serialize_field("data", values)?,
                Data::Fp32(values) => object.serialize_field("data", values)?,
                Data::Fp64(values) => object.serialize_field("data", values)?,
                Data::Bool(values) => object.serialize_field("data", values)?,
            }
        }
        object.end()
    }
}

impl Data {
    /// Returns labels of this kind; `None` if one is of another.
    pub(super) fn labels(kind: Kind, labels: &[Value<'_>]) -> Option<Self> {
        let all = labels.iter().copied();
        match kind {
            Kind::Text => Some(Self::Bytes(all.map(|label| label.to_string()).collect())),
            Kind::Integer => {
                let number = |label| if let Value::Integer(number) = label { Some(number) } else { None };
                all.map(number).collect::<Option<_>>().map(Self::Int64)
            }
            Kind::Float => {
                let number = |label| if let Value::Float(number) = label { Some(number) } else { None };
                all.map(number).collect::<Option<_>>().map(Self::Fp64)
            }
            Kind::Boolean => {
                let truth = |label| if let Value::Boolean(truth) = label { Some(truth) } else { None };
                all.map(truth).collect::<Option<_>>().map(Self::Bool)
            }
        }
    }

    fn datatype(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "BYTES",
            Self::Int64(_) => "INT64",
            Self::Fp32(_) => "FP32",
            Self::Fp64(_) => "FP64",
            Self::Bool(_) => "BOOL",
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Bytes(values) => values.len(),
            Self::Int64(values) => values.len(),
            Self::Fp32(values) => values.len(),
            Self::Fp64(values) => values.len(),
            Self::Bool(values) => values.len(),
        }
    }

    /// Returns the number of bytes that [`write`](Self::write) appends.
    fn bytes(&self) -> usize {
        match self {
            Self::Bytes(values) => values.iter().map(|value| 4 + value.len()).sum(),
            Self::Int64(_) | Self::Fp64(_) => 8 * self.len(),
            Self::Fp32(_) => 4 * self.len(),
            Self::Bool(_) => self.len(),
        }
    }

    /// Appends the values in little-endian order. A text has its length before it, in four bytes.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Bytes(values) => {
                for value in values {
                    to.extend((value.len() as u32).to_le_bytes());
                    to.extend(value.as_bytes());
                }
            }
            Self::Int64(values) => to.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::Fp32(values) => to.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::Fp64(values) => to.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::Bool(values) => to.extend(values.iter().map(|value| u8::from(*value))),
        }
    }
}

/// Reads FP32 values from the bytes behind the JSON, which are `size` bytes.
pub(super) fn read_binary(bytes: &[u8], size: usize) -> Result<Vec<f32>, String> {
    if bytes.len() != size {
        return Err(format!("has `binary_data_size` {size}, but there are {} bytes behind the JSON", bytes.len()));
    }
    let (values, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(format!("has `binary_data_size` {size}; numbers of FP32 have 4 bytes each"));
    }
    Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
}

/// Reads FP32 values from JSON, as one array or as arrays in arrays.
pub(super) fn read_json(data: &RawValue) -> Result<Vec<f32>, String> {
    let mut values = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(data.get());
    Numbers(&mut values).deserialize(&mut deserializer).map_err(|error| format!("has `data` with a fault: {error}"))?;
    Ok(values)
}

/// Appends a number, or all numbers of an array.
struct Numbers<'v>(&'v mut Vec<f32>);

impl<'de> DeserializeSeed<'de> for Numbers<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Numbers<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number or an array of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Numbers(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.push(value as f32);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.push(value as f32);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.push(value as f32);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_written_as_the_protocol_says() {
        let texts = Tensor::new("set", Data::Bytes(vec!["ä".into(), String::new()]));
        let json = serde_json::to_value(&texts).unwrap();
        assert_eq!(json, json!({ "name": "set", "datatype": "BYTES", "shape": [2], "data": ["ä", ""] }));
        let binary = Tensor { binary: true, ..texts };
        let json = serde_json::to_value(&binary).unwrap();
        assert_eq!(json["parameters"]["binary_data_size"], 10);
        let mut bytes = Vec::new();
        binary.data.write(&mut bytes);
        assert_eq!(bytes, [2, 0, 0, 0, 0xc3, 0xa4, 0, 0, 0, 0]);
        for (data, expected) in [
            (Data::Int64(vec![-2]), vec![254, 255, 255, 255, 255, 255, 255, 255]),
            (Data::Fp32(vec![1.0]), vec![0, 0, 128, 63]),
            (Data::Fp64(vec![1.0]), vec![0, 0, 0, 0, 0, 0, 240, 63]),
            (Data::Bool(vec![true, false]), vec![1, 0]),
        ] {
            let mut bytes = Vec::new();
            data.write(&mut bytes);
            assert_eq!((bytes.len(), bytes), (data.bytes(), expected));
        }
    }

    #[test]
    fn numbers_are_read_flat_or_nested_and_faults_are_named() {
        let read = |text: &str| read_json(&RawValue::from_string(text.into()).unwrap());
        assert_eq!(read("[1, 2.5, -3]"), Ok(vec![1.0, 2.5, -3.0]));
        assert_eq!(read("[[1, 2.5], [-3, 4e0]]"), Ok(vec![1.0, 2.5, -3.0, 4.0]));
        for wrong in ["[\"1\"]", "{}", "[null]", "[true]"] {
            assert!(read(wrong).unwrap_err().contains("expected a number"), "{wrong}");
        }
        assert_eq!(read_binary(&[0, 0, 128, 63], 4), Ok(vec![1.0]));
        assert!(read_binary(&[0, 0, 128, 63], 8).unwrap_err().contains("4 bytes behind"));
        assert!(read_binary(&[0; 5], 5).unwrap_err().contains("4 bytes each"));
    }

    #[test]
    fn labels_are_tensors_of_their_kind() {
        let labels = [Value::Integer(7), Value::Integer(-1)];
        assert_eq!(Data::labels(Kind::Integer, &labels), Some(Data::Int64(vec![7, -1])));
        assert_eq!(Data::labels(Kind::Text, &[Value::Text("a")]), Some(Data::Bytes(vec!["a".into()])));
        assert_eq!(Data::labels(Kind::Boolean, &labels), None);
    }
}
