"""Keywords: what a load and a run take beyond our own, and the nearest of it to what they do not.

transformers and nnsight take keywords by many ways and pass over what none of them knows, some until
the weights load and some for good. So what they take is read off their signatures and their code.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from nnpedia.errors import UnknownKeyword, nearest

OURS = frozenset(("task", "rename", "envoys"))  # what the library itself tells nnsight
_NEVER = frozenset(("self", "cls", "module", "args", "kwargs", "model_args", "repo_id", "parent", "path"))


def check_keywords(keywords: Iterable[str], constructor: Callable[..., Any], config: Any, model_class: Any) -> None:
    """Raise `UnknownKeyword` for one that neither the library, nnsight, `from_pretrained` nor the config takes.

    Args:
        keywords: The names given beyond those of `constructor`.
        constructor: Whose own names are offered as spellings too.
        config: The checkpoint's, whose every attribute a keyword may set.
        model_class: The transformers class that is loaded; `None` where that is unknown or loaded already.
    """
    for keyword in keywords:
        if keyword in OURS:
            raise UnknownKeyword(f"the keyword {keyword!r} is the library's own to set: leave it out")
        if keyword in _of_a_load() if model_class is not None else keyword in _of_a_module():
            continue
        if model_class is None and _would_set(keyword, config):
            raise UnknownKeyword(f"the module is loaded already, and {keyword!r} would change nothing: load it so")
        if model_class is not None and (_would_set(keyword, config) or keyword in _parameters(model_class.__init__)):
            continue
        own = _parameters(constructor) | {"tokenizer"}
        close = nearest(keyword, sorted(own)) or nearest(keyword, sorted(_of_a_load() | set(config.to_dict())))
        raise UnknownKeyword(
            f"there is no keyword {keyword!r}{close or ': neither from_pretrained nor the config has one'}"
        )


def check_run(model: Any, run: str, keywords: Iterable[str]) -> None:
    """Raise `UnknownKeyword` for one that neither nnsight, the tokenizing nor the model's own function takes.

    Args:
        model: The `StandardizedTransformer` that runs.
        run: What it makes: `"generate"`, or a forward by any other name.
        keywords: The names given to the run or to one of its prompts.
    """
    root: Any = type(model._module)
    own = _parameters(root.forward)
    unknown = sorted(set(keywords) - own)
    if not unknown:
        return
    generates, generating = run == "generate", _of_generating(root)
    taken = own | _of_a_forward(frozenset(map(type, model._module.modules())))
    if generates:
        taken |= generating
    for keyword in unknown:
        if keyword in taken:
            continue
        if keyword in generating:
            raise UnknownKeyword(f"a trace makes one forward, and {keyword!r} is of model.generate(…)")
        close = nearest(keyword, sorted(taken))
        if not close and (other := nearest(keyword, sorted(generating))):
            close = f"{other.removesuffix('?')}, of model.generate(…)?"
        told = close or ": neither nnsight nor the model has one"
        raise UnknownKeyword(f"there is no keyword {keyword!r} of a {'generation' if generates else 'trace'}{told}")


@cache
def _of_a_forward(classes: frozenset[Any]) -> frozenset[str]:
    """What a model of these module classes passes on through `**kwargs`, and what becomes of a prompt before."""
    from nnsight.modeling import processing
    from transformers import TextGenerationPipeline
    from transformers.utils.generic import TransformersKwargs

    from nnpedia.calls import CACHES

    own = [_parameters(each.forward) for each in classes if each.__module__.startswith("transformers.")]
    tokenizing = TextGenerationPipeline._sanitize_parameters
    whole = (*processing.ROW_FIELDS, *processing.PROCESSOR_KEYS, *TransformersKwargs.__annotations__, *CACHES)
    return frozenset((*whole, "return_dict")).union(*own, _parameters(tokenizing), _popped(tokenizing))


@cache
def _of_generating(model_class: Any) -> frozenset[str]:
    """What `generate` takes: its own, what a `GenerationConfig` holds, and what prepares its forwards."""
    from transformers import GenerationConfig, GenerationMixin

    prepared = _parameters(getattr(model_class, "prepare_inputs_for_generation", lambda: None))
    settings = frozenset(name for name in GenerationConfig().to_dict() if not name.startswith("_"))
    return settings | prepared | _parameters(GenerationMixin.generate) | _popped(GenerationMixin.generate)


def _would_set(keyword: str, config: Any) -> bool:
    """Whether transformers would set an attribute of the config by this keyword."""
    return hasattr(config, keyword)


@cache
def _of_a_load() -> frozenset[str]:
    """What a load of weights takes: nnsight's own, the pipeline's, `from_pretrained`'s, and a quantization's."""
    from nnsight.modeling import quantization
    from transformers import AutoModelForCausalLM, PreTrainedModel

    loading = (PreTrainedModel.from_pretrained, AutoModelForCausalLM.from_pretrained)
    taken = [_parameters(each) | _popped(each) for each in loading]
    return _of_a_module().union(*taken, getattr(quantization, "_COMPUTE_DTYPE_KEYS", ()))


@cache
def _of_a_module() -> frozenset[str]:
    """What there is to say about a module that is loaded: nnsight's own keywords, and the pipeline's."""
    from nnsight.modeling.transformers import TransformersModel
    from transformers import pipeline

    makers = [each.__init__ for each in TransformersModel.__mro__ if "__init__" in vars(each) and each is not object]
    return frozenset().union(*map(_parameters, [*makers, pipeline])) - OURS


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters) - _NEVER


def _popped(function: Callable[..., Any]) -> frozenset[str]:
    """The names that a function takes out of its `**kwargs`, one by one or from a list of them."""
    names: set[object] = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("pop", "get"):
            listed = node.args[:1]
        else:
            listed = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        names |= {each.value for each in listed if isinstance(each, ast.Constant)}
    return frozenset(name for name in names if isinstance(name, str) and name.isidentifier())
