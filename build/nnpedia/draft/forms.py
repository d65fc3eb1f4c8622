"""Forms: how a law may read, from what the families that are there say and from what was seen of this model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nnpedia import formula
from nnpedia.draft.candidates import Pair
from nnpedia.draft.making import Form, made_forms
from nnpedia.draft.said import Said
from nnpedia.draft.sighting import Sighting
from nnpedia.errors import SpecError
from nnpedia.family import Family
from nnpedia.vocabulary import LawSpec, parsed


def law_forms(
    seen: Sighting, said: Mapping[Pair, Said], pair: Pair, base: Family | None, pool: Sequence[Family]
) -> list[Form]:
    """The forms of one law, the base's first, then the others' and those made for this model; each once."""
    vocabulary = seen.vocabulary.laws[pair[0]][pair[1]]
    given: list[LawSpec] = [] if base is None else [base.laws[pair[0]][pair[1]]]
    given += [vocabulary]
    for family in pool:
        given.append(family.laws[pair[0]][pair[1]])
        for variant in family.variants.values():
            override = variant.laws.get(pair[0], {}).get(pair[1])
            if override is not None and override.formula is not None:
                given.append(override.over(vocabulary))
    forms = [Form(law.formula, law.says, law.tolerance) for law in given if law.exception is None]
    made = [form for form in made_forms(seen, said, pair, vocabulary) if _parses(form.formula)]
    forms = [form for form in forms if answered(seen, form.formula)]
    unique: dict[str, Form] = {}
    for form in [*forms[:1], *made[:1], *forms[1:], *made[1:]] if pair in _SEEN_FIRST else [*forms, *made]:
        unique.setdefault(form.formula, form)
    return list(unique.values())


def answered(seen: Sighting, text: str) -> bool:
    """Whether the config has every setting a formula names."""
    return all(hasattr(seen.trial.config, name) for name in re.findall(r"config\.(\w+)", text))


_SEEN_FIRST = (("layers", "mlp_norm"), ("layers", "attention_norm"))


def _parses(text: str) -> bool:
    try:
        parsed(lambda one: formula.parse(one, law=True), text)
    except (SpecError, ValueError):
        return False
    return True
