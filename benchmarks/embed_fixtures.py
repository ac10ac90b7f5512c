"""Makes the files that the tests of dance-embed are held against: a tiny CLIP with random weights as ONNX, pictures of every kind, and
what Pillow and `transformers` make of them.

    python3 benchmarks/embed_fixtures.py

They go to `crates/dance-embed/tests/files` and are committed, so that no test needs torch.
"""

import io
import json
from pathlib import Path

from environment import ROOT, enter

TARGET = ROOT / "crates" / "dance-embed" / "tests" / "files"
SIDE = 32
TEXTS = [
    "a photo of a cat",
    "a photo of a dog",
    "A river, seen from above; with two bridges!",
    "forest",
    "café naïve 東京",
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen",
]


def pictures() -> dict:
    """Files of pictures, by name."""
    import numpy as np
    from PIL import Image

    rows, columns = np.mgrid[0:43, 0:59]
    waves = [np.sin(rows / 5 + shift) * np.cos(columns / (4 + shift)) for shift in (0, 1, 2)]
    smooth = np.stack([(wave + 1) * 127.5 for wave in waves], axis=-1).astype(np.uint8)
    noise = np.random.default_rng(1).integers(0, 256, (37, 32, 3), dtype=np.uint8)
    color, gray = Image.fromarray(smooth), Image.fromarray(smooth[..., 0])
    alpha = color.copy()
    alpha.putalpha(gray)
    files = {}

    def save(name: str, picture, **options) -> None:
        out = io.BytesIO()
        ending = name.split(".")[1]
        picture.save(out, format={"jpg": "JPEG", "tif": "TIFF"}.get(ending, ending.upper()), **options)
        files[name] = out.getvalue()

    for name in ("rgb.png", "rgb.bmp", "rgb.tif", "rgb.ppm"):
        save(name, color)
    save("lossless.webp", color, lossless=True)
    save("noise.png", Image.fromarray(noise))
    save("gray.png", gray)
    save("bits.png", gray.convert("1"))
    save("alpha.png", alpha)
    save("gray_alpha.png", alpha.convert("LA"))
    save("palette.png", color.quantize(32))
    save("palette.gif", color.quantize(32))
    save("transparent.gif", color.quantize(32), transparency=3)
    save("small.png", color.resize((9, 7)))
    save("wide.png", color.resize((200, 11)))
    save("plain.jpg", color, quality=90)
    save("full_chroma.jpg", color, quality=95, subsampling=0)
    save("gray.jpg", gray, quality=90)
    save("progressive.jpg", color, quality=90, progressive=True)
    save("cmyk.jpg", color.convert("CMYK"), quality=95)
    for orientation in range(2, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(f"turned{orientation}.jpg", color, quality=95, subsampling=0, exif=exif)
    # Pillow writes no 16-bit color, so the PNG is put together here.
    deep = (smooth.astype(np.uint32) * 257 - (smooth > 3) * 100).astype(">u2")
    files["deep_gray.png"] = png(deep[..., 0], 0)
    files["deep.png"] = png(deep, 2)
    return files


def png(values, kind: int) -> bytes:
    """A PNG of 16 bits per channel."""
    import struct
    import zlib

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 16, kind, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in values)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def data_set(folder: Path) -> None:
    """Three pictures in the layout of Hugging Face's datasets: labels are numbers with names, a path may be missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [("alpha.png", "alpha.png", 0), ("plain.jpg", None, 1), ("gray.jpg", "gray.jpg", 0)]
    images = [{"bytes": (folder / name).read_bytes(), "path": path} for name, path, _ in rows]
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    notes = {"huggingface": json.dumps({"info": {"features": features}})}
    schema = pa.schema([("image", kind), ("label", pa.int64())], metadata=notes)
    pq.write_table(pa.table([pa.array(images, kind), [label for *_, label in rows]], schema=schema), TARGET / "pictures.parquet")


def strip(path: Path) -> None:
    """Takes out what the exporter notes about the machine and the code it ran on."""
    import onnx

    model = onnx.load(path)
    del model.metadata_props[:], model.graph.metadata_props[:]
    model.doc_string = model.graph.doc_string = ""
    del model.graph.value_info[:]
    for function in model.functions:
        del function.metadata_props[:]
    for part in (*model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output):
        part.doc_string = ""
        del part.metadata_props[:]
    onnx.save(model, path)


def tokenizer(folder: Path):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokens = Tokenizer(models.BPE(unk_token="<|endoftext|>"))
    tokens.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    special = ["<|startoftext|>", "<|endoftext|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokens.train_from_iterator(TEXTS, trainer)
    ids = [(name, tokens.token_to_id(name)) for name in special]
    tokens.post_processor = processors.TemplateProcessing(single=f"{special[0]} $A {special[1]}", special_tokens=ids)
    tokens.save(str(folder / "tokenizer.json"))
    config = {"model_max_length": 16, "pad_token": special[1]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    return tokens


def main() -> None:
    import numpy as np
    import torch
    from PIL import Image, ImageOps
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel

    TARGET.mkdir(parents=True, exist_ok=True)
    clip, folder = TARGET / "clip", TARGET / "pictures"
    clip.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    tokens = tokenizer(clip)
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    end = tokens.token_to_id("<|endoftext|>")
    config = CLIPConfig(
        text_config={**small, "vocab_size": tokens.get_vocab_size(), "max_position_embeddings": 16, "eos_token_id": end},
        vision_config={**small, "image_size": SIDE, "patch_size": 8},
        projection_dim=12,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = CLIPModel(config).eval()
    for weight in model.parameters():  # CLIP's own start is near 0, where all embeddings are alike
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.5)
    processor = CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    keys = ("crop_size", "do_center_crop", "do_convert_rgb", "do_normalize", "do_rescale", "do_resize", "image_mean")
    stored = json.loads(processor.to_json_string())
    stored = {key: stored[key] for key in (*keys, "image_std", "resample", "rescale_factor", "size")}
    (clip / "preprocessor_config.json").write_text(json.dumps(stored, indent=2) + "\n")

    class Vision(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, pixel_values):
            return self.model.visual_projection(self.model.vision_model(pixel_values=pixel_values)[1])

    class Text(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model.text_projection(
                self.model.text_model(input_ids=input_ids, attention_mask=attention_mask)[1]
            )

    batch, length = torch.export.Dim("batch", min=1, max=4096), torch.export.Dim("length", min=2, max=16)
    torch.onnx.export(
        Vision().eval(),
        (torch.zeros(2, 3, SIDE, SIDE),),
        str(clip / "vision_model.onnx"),
        input_names=["pixel_values"],
        output_names=["image_embeds"],
        dynamic_shapes={"pixel_values": {0: batch}},
        dynamo=True,
        external_data=False,
    )
    example = torch.full((2, 7), end)
    torch.onnx.export(
        Text().eval(),
        (example, torch.ones_like(example)),
        str(clip / "text_model.onnx"),
        input_names=["input_ids", "attention_mask"],
        output_names=["text_embeds"],
        dynamic_shapes=dict.fromkeys(["input_ids", "attention_mask"], {0: batch, 1: length}),
        dynamo=True,
        external_data=False,
    )

    strip(clip / "vision_model.onnx")
    strip(clip / "text_model.onnx")
    arrays, names = {}, []
    for name, contents in sorted(pictures().items()):
        (folder / name).write_bytes(contents)
        names.append(name)
        picture = ImageOps.exif_transpose(Image.open(io.BytesIO(contents)))
        # Pillow cuts 16-bit gray off at 255; the upper byte, which it takes of 16-bit color, is what is meant.
        if picture.mode.startswith("I"):
            picture = Image.fromarray((np.asarray(picture).astype(np.uint32) >> 8).astype(np.uint8))
        # As transformers.image_utils.load_image does it; what the file says of transparency is left behind.
        picture = Image.fromarray(np.asarray(picture.convert("RGB")))
        arrays[f"decoded/{name}"] = np.asarray(picture)
        arrays[f"pixels/{name}"] = processor(picture, return_tensors="np")["pixel_values"][0].astype(np.float32)
    data_set(folder)
    pixels = torch.from_numpy(np.stack([arrays[f"pixels/{name}"] for name in names]))
    with torch.inference_mode():
        arrays["image_embeds"] = model.visual_projection(model.vision_model(pixel_values=pixels)[1]).numpy()
        rows = []
        tokens.enable_truncation(16)
        for text in TEXTS:
            ids = torch.tensor([tokens.encode(text).ids])
            rows.append(model.text_projection(model.text_model(input_ids=ids)[1])[0].numpy())
        arrays["text_embeds"] = np.stack(rows)
    random = Image.fromarray(np.random.default_rng(2).integers(0, 256, (37, 53, 3), dtype=np.uint8))
    arrays["resize/picture"] = np.asarray(random)
    for filter in ("BOX", "BILINEAR", "HAMMING", "BICUBIC", "LANCZOS"):
        for width, height in ((16, 16), (53, 20), (20, 37), (101, 90), (1, 1)):
            resized = random.resize((width, height), Image.Resampling[filter])
            arrays[f"resize/{filter.lower()}/{width}x{height}"] = np.asarray(resized)
    np.savez_compressed(TARGET / "expected.npz", **arrays)
    (TARGET / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    print(f"{TARGET}: {len(names)} pictures, {sum(path.stat().st_size for path in TARGET.rglob('*') if path.is_file())} bytes")


if __name__ == "__main__":
    enter("torch", "transformers", "onnx", "onnxscript", "pillow", "numpy", "pyarrow", "tokenizers")
    main()
