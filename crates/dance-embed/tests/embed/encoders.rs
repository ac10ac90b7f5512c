//! Embeddings against those of `transformers`.

use dance::Context;
use dance_embed::{EmbedOptions, Encoder, EncoderOptions, Items, Modality, embed, prototypes};

use crate::expected::{Array, arrays};
use crate::{clip, cosine, file, refused, runtime};

fn expected(name: &str) -> Array {
    arrays(name).into_iter().next().unwrap().1
}

#[track_caller]
fn agree(found: &dance::Matrix, expected: &Array) {
    assert_eq!([found.rows(), found.cols()], expected.shape[..]);
    for (row, expected) in expected.floats().chunks(found.cols()).enumerate() {
        let cosine = cosine(found.row(row), expected);
        assert!(cosine >= 0.9999, "row {row}: {cosine}");
    }
}

#[test]
fn pictures_are_embedded_as_transformers_does() {
    let context = Context::new(2).unwrap();
    let Some(encoder) = clip(Modality::Pictures, &context) else { return };
    let items = Items::read(&file("pictures")).unwrap();
    let embedded = embed(&items, &encoder, &EmbedOptions::default(), &context).unwrap();
    agree(embedded.table.embeddings(), &expected("image_embeds"));
    let identity = embedded.table.encoder.unwrap();
    assert_eq!(identity.weights.len(), 64);
    assert!(identity.preparation.contains("bicubic"), "{}", identity.preparation);
}

#[test]
fn texts_are_embedded_as_transformers_does() {
    let context = Context::new(2).unwrap();
    let Some(encoder) = clip(Modality::Texts, &context) else { return };
    let items = Items::read(&file("texts.txt")).unwrap();
    let embedded = embed(&items, &encoder, &EmbedOptions::default(), &context).unwrap();
    agree(embedded.table.embeddings(), &expected("text_embeds"));
    assert_eq!(embedded.table.ids.as_ref().unwrap()[3], "forest");
    // A class name in a prompt is a text like any other.
    let names = ["cat".to_owned(), "dog".to_owned()];
    let found = prototypes(&names, "a photo of a {}", &encoder, &context).unwrap();
    for row in 0..2 {
        assert!(cosine(found.row(row), embedded.table.embeddings().row(row)) > 0.9999);
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let of = |threads: usize| {
        let context = Context::new(threads).unwrap();
        let encoder = clip(Modality::Pictures, &context)?;
        let items = Items::read(&file("pictures")).unwrap();
        Some(embed(&items, &encoder, &EmbedOptions::default(), &context).unwrap().table)
    };
    let Some(one) = of(1) else { return };
    for threads in [2, 3] {
        assert_eq!(one, of(threads).unwrap());
    }
}

#[test]
fn encoders_that_cannot_be_used_say_why() {
    let context = Context::new(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let options = EncoderOptions { offline: true, runtime: runtime(), ..EncoderOptions::default() };
    let open = |name: &str, modality| Encoder::open(name, modality, &options, &context);
    let path = folder.path().to_str().unwrap();
    refused(open("clip-vit-b-33", Modality::Pictures), &["no such encoder", "clip-vit-b-32"]);
    refused(open("dinov2-small", Modality::Texts), &["embeds no texts"]);
    refused(open(path, Modality::Pictures), &["vision_model.onnx", "export"]);
    std::fs::write(at("weights.bin"), b"x").unwrap();
    refused(open(at("weights.bin").to_str().unwrap(), Modality::Pictures), &["no .onnx file"]);
    std::fs::write(at("model.onnx"), b"not ONNX").unwrap();
    refused(open(path, Modality::Pictures), &["preprocessor_config.json", "is not there"]);
    std::fs::write(at("preprocessor_config.json"), b"{").unwrap();
    refused(open(path, Modality::Pictures), &["preprocessor_config.json", "not JSON"]);
    std::fs::copy(file("clip/preprocessor_config.json"), at("preprocessor_config.json")).unwrap();
    std::fs::write(at("tokenizer.json"), b"{}").unwrap();
    refused(open(path, Modality::Texts), &["tokenizer.json", "tokenizer"]);
    if options.runtime.is_some() {
        refused(open(path, Modality::Pictures), &["model.onnx", "ONNX Runtime cannot run it"]);
        // An encoder of texts, taken for one of pictures.
        std::fs::copy(file("clip/text_model.onnx"), at("model.onnx")).unwrap();
        let encoder = open(path, Modality::Pictures).unwrap();
        let items = Items::read(&file("pictures")).unwrap();
        refused(embed(&items, &encoder, &EmbedOptions::default(), &context), &["input_ids", "one input"]);
    }
}
