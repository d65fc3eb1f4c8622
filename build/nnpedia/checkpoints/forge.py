"""The forge: a small checkpoint of a family, made from its reference config scaled down.

It is saved with `save_pretrained` and loaded like any other, so the loading path is the real one. The
same spec gives the same bytes.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

from nnpedia.checkpoints import configs, store
from nnpedia.checkpoints.tokenizer import IDS, SIZE, byte_tokenizer
from nnpedia.errors import CheckpointError, one_line
from nnpedia.yamlfile import read

SEED = 20250

#: What classes of models raise at settings that no model is built with.
UNBUILT = (RuntimeError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def config(family: Any) -> Any:
    """The forged checkpoint's config: the reference's keys, the spec's `forge:`, and the byte tokenizer's ids.

    Raises `CheckpointError` at the spec when the keys do not make a config, or leave too few tokens for bytes.
    """
    where = _where(family)
    made = configs.build(family.family, family.checkpoints[0].config, family.forge, IDS, where=where)
    made.architectures, made.dtype = [family.architecture], "float32"
    if made.vocab_size < SIZE:
        raise CheckpointError(f"forge: vocab_size {made.vocab_size} is too small for {SIZE} byte tokens", where=where)
    return made


def detail(family: Any) -> str:
    """A sentence that says what the forged checkpoint is, for the page."""
    made = config(family)
    told = {
        "num_hidden_layers": "{} blocks", "hidden_size": "hidden size {}", "num_attention_heads": "{} heads",
        "vocab_size": "vocabulary {}", "num_local_experts": "{} experts", "num_experts": "{} experts",
    }  # fmt: skip
    sizes = ", ".join(text.format(getattr(made, key)) for key, text in told.items() if getattr(made, key, None))
    return f"Scaled down from {family.checkpoints[0].id} ({sizes}), every weight drawn at random from seed {SEED}."


def materialize(family: Any) -> Path:
    """The folder of a family's forged checkpoint, made on the first use."""
    import torch
    import transformers

    made = config(family)
    key = store.key(
        config=made.to_dict(), seed=SEED, torch=torch.__version__, transformers=transformers.__version__,
        code=store.code("forge", "redraw", "tokenizer", "configs"),
    )  # fmt: skip
    name = "-".join([family.family, "forge", *getattr(family, "variant", ())])
    return store.kept(f"{name}-{key}", lambda folder: save(family, folder))


def save(family: Any, folder: Path) -> dict[str, Any]:
    """Make the checkpoint and write it into `folder`."""
    import torch
    import transformers

    from nnpedia.checkpoints.redraw import redraw

    made = config(family)
    made.dtype = torch.float32  # some classes ask for it while they are built; written, it is the same name
    model_class = getattr(transformers, family.architecture, None)
    if model_class is None:
        raise CheckpointError(f"transformers has no class {family.architecture}", where=_where(family))
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)  # what the class draws itself and redraw keeps, such as decays
            model = model_class(made).eval()
        redraw(model, SEED)
    except UNBUILT as error:
        raise CheckpointError(
            f"forge: no model runs with these sizes: {one_line(error)}", where=_where(family)
        ) from None
    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar
        model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return {"reference": family.checkpoints[0].id, "seed": SEED}


def _where(family: Any) -> str | None:
    folder = getattr(family, "folder", None)
    if folder is None:
        return None
    of = [key for name in getattr(family, "variant", ()) for key in ("variants", name)]
    return read(folder / "family.yml").where(*of, "forge")
