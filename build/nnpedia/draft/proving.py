"""Proving: the draft as a spec in a folder of its own, put to every check, and what fails taken out of it.

A value stays in a draft only where a law that names it holds, its shape is its layout's under every load that has
it, and writing at its place reaches the logits. Another place is tried where one fails; with none left it is not
worked out.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnpedia.draft.bearing import as_law, borne_out, lacking
from nnpedia.draft.candidates import Pair
from nnpedia.draft.depending import beside
from nnpedia.draft.forms import law_forms
from nnpedia.draft.making import Form
from nnpedia.draft.opening import Subject
from nnpedia.draft.readouts import readout_forms, readout_law
from nnpedia.draft.said import CALLS, Said, said_of
from nnpedia.draft.sighting import Sighting
from nnpedia.draft.spec import cost, prefer_base
from nnpedia.family import Family, family_folders, load_family
from nnpedia.laws import Measured, applies, measure
from nnpedia.observe import read, spots_of
from nnpedia.record import Problem
from nnpedia.snippets import PROMPT
from nnpedia.support import probing
from nnpedia.vocabulary import LawSpec

ROUNDS = 10


@dataclass
class Draft:
    """A draft, and what became of its parts.

    Attributes:
        spec: The content of `family.yml`.
        said: Every value of the blocks: proven, absent, or not worked out and why.
        laws: Host and law to the form that holds; `None` where none was found.
        problems: What the last check still says.
        orders: Host to its values in the order a forward gives them, where a check found another.
    """

    subject: Subject
    seen: Sighting
    base: Family | None
    pool: Sequence[Family]
    said: dict[Pair, Said]
    spec: dict[str, Any] = field(default_factory=dict)
    laws: dict[Pair, Form | None] = field(default_factory=dict)
    readout: str | None = None
    problems: list[Problem] = field(default_factory=list)
    measured: int = 0
    badges: list[str] = field(default_factory=list)
    subtitle: str = "Drafted from a live model; what sets it apart is not written yet."
    about: str = ""
    notes: str = ""
    orders: dict[str, list[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.subject.model_type

    @property
    def proven(self) -> list[Pair]:
        return [pair for pair, one in self.said.items() if one.given]

    @property
    def todo(self) -> dict[Pair, str]:
        return {pair: one.todo for pair, one in self.said.items() if one.todo is not None}


def available(folder: Path, hidden: Sequence[str]) -> list[Family]:
    """The families that may be a base: all but the hidden ones and those that extend one."""
    families = {name: load_family(path) for name, path in family_folders(folder).items()}
    return beside(families, hidden)


def drafted(subject: Subject, seen: Sighting, pool: Sequence[Family]) -> Draft:
    """A draft with its base chosen and nothing proven yet."""
    said = said_of(seen, pool)
    base = min([None, *pool], key=lambda one: cost(seen, said, one))
    prefer_base(said, base)
    return Draft(subject, seen, base, pool, said)


def prove(draft: Draft, folder: Path, badges: Sequence[str] = (), about: str = "") -> None:
    """Write the draft into `folder`, a families folder made for it, and take out what no check bears out."""
    prepare(folder, draft)
    draft.badges, draft.about = list(badges), about
    for _ in range(ROUNDS):
        write(draft, folder)
        family = load_family(folder / draft.name)
        load = _loader(family)
        _choose_laws(draft, family, load)
        write(draft, folder)
        family = load_family(folder / draft.name)
        if not _check(draft, family, _loader(family)):
            break


def prepare(folder: Path, draft: Draft) -> None:
    """The vocabulary, the badges and the families a draft may extend, copied."""
    folder.mkdir(parents=True, exist_ok=True)
    source = draft.pool[0].folder.parent if draft.pool else None
    if source is None:
        return
    for name in ("vocabulary.yml", "badges.yml"):
        shutil.copy(source / name, folder / name)
    for family in draft.pool:
        (folder / family.family).mkdir(exist_ok=True)
        shutil.copy(family.folder / "family.yml", folder / family.family / "family.yml")


def write(draft: Draft, folder: Path) -> None:
    """`family.yml` of the draft as it stands."""
    from nnpedia.draft.writing import as_yaml, spec_of

    load_family.cache_clear()
    draft.spec = spec_of(draft)
    (folder / draft.name).mkdir(exist_ok=True)
    (folder / draft.name / "family.yml").write_text(as_yaml(draft.spec))


Load = Callable[[dict[str, str]], Any]


def _loader(family: Family) -> Load:
    from nnpedia.introspect import loader

    load = loader(family)
    return lambda options: load(options, "forge")


# -- laws -----------------------------------------------------------------------------------------------------------


def _choose_laws(draft: Draft, family: Family, load: Load) -> None:
    """The form of every law that holds under every load, and the readout that gives the logits."""
    models: list[tuple[Any, dict[Any, Any]]] = []
    for options in draft.seen.loads.values():
        model = load(options)
        with probing(model):
            models.append((model, read(model, spots_of(model), PROMPT)))
    draft.laws, draft.measured = {}, 0
    draft.readout = None
    for text in readout_forms(draft.seen, draft.base, draft.pool):
        form = Form(readout_law(text), "", 0.0)
        if _holds(form, "model", family, models):
            draft.readout = text
            break
    for host, table in draft.seen.vocabulary.laws.items():
        for name in table:
            if (host, name) == ("model", "readout"):
                continue
            chosen: Form | None = None
            tried = 0
            for form in law_forms(draft.seen, draft.said, (host, name), draft.base, draft.pool):
                if not applies(as_law(form), host, family.values):
                    continue
                tried += 1
                if _holds(form, host, family, models):
                    chosen = form
                    break
            if tried:
                draft.laws[host, name] = chosen


def _holds(form: Form, host: str, family: Family, models: list[tuple[Any, dict[Any, Any]]]) -> bool:
    cases = 0
    for model, found in models:
        measured: Measured = measure(model, host, as_law(form), found)
        if measured.message or (measured.error is not None and measured.error > form.tolerance):
            return False
        cases += measured.cases
    return cases > 0


# -- checks ---------------------------------------------------------------------------------------------------------


def _check(draft: Draft, family: Family, load: Load) -> bool:
    """Every check of the encyclopedia on the draft; whether something was taken out or changed because of it."""
    from nnpedia.verify import verify

    changed = False
    draft.problems = verify(family, load, PROMPT).problems
    for problem in draft.problems:
        changed = _reordered(draft, problem, family) or changed
        for pair in _blamed(draft, problem):
            if _next_place(draft, pair, problem.what):
                changed = True
    return changed or _without_law(draft, family)


def _reordered(draft: Draft, problem: Problem, family: Family) -> bool:
    """Put a value before the one a check saw it come before; whether the problem was of that kind."""
    told = re.search(r"(\w+) comes before (\w+), not after it", problem.what)
    host = next((host for host, table in family.values.items() if told and {*told.groups()} <= {*table}), None)
    if told is None or host is None:
        return False
    order = [name for name in family.values[host] if name != told.group(1)]
    order.insert(order.index(told.group(2)), told.group(1))
    draft.orders[host] = order
    return True


def _without_law(draft: Draft, family: Family) -> bool:
    """Take out the values no defining law of which holds: nothing says that they are what they are called.

    A second place is tried before.
    """
    borne = borne_out(draft.laws, family)
    changed = False
    for pair, one in draft.said.items():
        if not one.given or pair in borne or pair[1] in CALLS:
            continue
        why = lacking(draft.laws, pair, family)
        if one.taken is not None:
            _give_up_recurrence(draft, f"{pair[1]}: {why}")
            return True
        if len(one.choices) > 1 and not one.retried:
            one.choices.pop(0)  # a place may hold the value on the block that was looked at and not on every one
            one.by_class, one.retried = {}, True
        else:
            _give_up(one, f"{why}; a tensor of its shape is at {one.choices[0].place.at}")
        changed = True
    return changed


def _blamed(draft: Draft, problem: Problem) -> Iterator[Pair]:
    """The value of the blocks a problem is about: the one its sentence begins with."""
    text = re.sub(r"^under [^:]*: ", "", problem.what)
    text = re.sub(r"^model[\w.\[\]]*: ", "", text)
    first = re.match(r"\w+", text)
    for pair, one in draft.said.items():
        if one.given and first and first.group() == pair[1]:
            yield pair


def _next_place(draft: Draft, pair: Pair, why: str) -> bool:
    one = draft.said[pair]
    if one.taken is not None and one.others:
        one.taken = one.others.pop(0)
        return True
    if one.taken is not None:
        _give_up_recurrence(draft, f"{pair[1]} at {one.taken.at or one.taken.reader}: {why}")
        return True
    if one.at is None:
        return False
    failed = one.choices.pop(0)
    one.by_class = {}
    if not one.choices or len(one.choices[0].loads) == 0:
        _give_up(one, f"at {failed.place.at}: {why}")
    return True


def _give_up_recurrence(draft: Draft, why: str) -> None:
    """The values of a recurrence are worked out from one another: all are read as another family's, or none."""
    for one in draft.said.values():
        if one.taken is not None:
            _give_up(one, why)


def _give_up(one: Said, why: str) -> None:
    tried = ", ".join(dict.fromkeys(choice.place.at for choice in one.choices[:4]))
    one.todo = f"{why}{f' (candidates: {tried})' if tried else ''}"
    one.choices, one.taken, one.others = [], None, []


def exceptions(draft: Draft, base: Mapping[str, Mapping[str, LawSpec]]) -> Iterator[tuple[Pair, dict[str, Any]]]:
    """What a spec has to say of laws: the forms that are not the base's, and those no form of which holds."""
    if draft.laws and draft.readout is None:
        yield ("model", "readout"), {"exception": "none of the readouts tried gives the logits; it is not worked out"}
    for (host, name), form in draft.laws.items():
        law = base[host][name]
        if form is None:
            yield (host, name), {"exception": "none of the forms tried holds; this law is not worked out"}
        elif law.formula != form.formula or law.exception is not None or law.tolerance != form.tolerance:
            entry: dict[str, Any] = {"says": form.says, "formula": form.formula}
            if law.tolerance != form.tolerance:
                entry["tolerance"] = form.tolerance
            yield (host, name), entry
