"""Lineages and colours: every family has its relatives, and every hue and ink can be read on every ground."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browsing import ROOT

from nnpedia.errors import SpecError
from nnpedia.family import load_families
from nnpedia.lineages import check_lineages, kin_of, load_lineages, style

FAMILIES = ROOT / "families"
TOKENS = (ROOT / "site/css/tokens.css").read_text()
GROUNDS = ("paper", "sheet", "raise")
INKS = ("ink", "soft", "faint", "accent", "warn", "ok", "bad", "ember", "layers", "attn", "mlp", "model")
WASHES = {"accent": "accent", "warn": "warn", "layers": "layers", "attn": "attn", "mlp": "mlp", "model": "model"}


def colours(scheme: str) -> dict[str, str]:
    """The colours that `tokens.css` gives names in a scheme."""
    found: dict[str, str] = {}
    which = "" if scheme == "default" else '="slate"'  # the light ones are everybody's, and paper's
    for block in re.findall(rf"\[data-md-color-scheme{which}\] \{{(.*?)\}}", TOKENS, re.DOTALL):
        found |= dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", block))
    return found


def light(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    upper, lower = sorted((light(one), light(other)), reverse=True)
    return (upper + 0.05) / (lower + 0.05)


def mixed(colour: str, ground: str, share: float) -> str:
    """`color-mix(in srgb, colour share, ground)`."""
    pairs = [(int(colour[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_every_ink_can_be_read_on_every_ground(scheme: str) -> None:
    tokens = colours(scheme)
    pairs = [(ink, ground) for ink in INKS for ground in GROUNDS] + [
        (ink, f"{wash}-wash") for wash, ink in WASHES.items()
    ]
    pairs += [("ink", f"{wash}-wash") for wash in WASHES]
    pairs += [("soft", f"{wash}-wash") for wash in WASHES]
    told = {f"{ink} on {ground}": contrast(tokens[f"nn-{ink}"], tokens[f"nn-{ground}"]) for ink, ground in pairs}
    assert {pair: round(ratio, 2) for pair, ratio in told.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_code_can_be_read_in_all_its_colours(scheme: str) -> None:
    tokens = colours(scheme)
    code = {name: hue for name, hue in tokens.items() if name.startswith("md-code-hl")}
    assert len(code) >= 6
    assert {name: hue for name, hue in code.items() if contrast(hue, tokens["nn-sheet"]) < 4.5} == {}


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_every_lineage_s_hue_can_be_read_on_every_ground_and_on_its_own_wash(scheme: str) -> None:
    tokens = colours(scheme)
    share = float(re.search(r"var\(--nn-lineage\) (\d+)%", TOKENS)[1]) / 100  # type: ignore[index]
    for name, lineage in load_lineages(FAMILIES).items():
        hue = lineage.light if scheme == "default" else lineage.dark
        wash = mixed(hue, tokens["nn-paper"], share)
        for ground in [*(tokens[f"nn-{ground}"] for ground in GROUNDS), wash]:
            assert contrast(hue, ground) >= 4.5, name
        assert contrast(tokens["nn-ink"], wash) >= 4.5, name
        assert contrast(tokens["nn-soft"], wash) >= 4.5, name


def test_every_family_is_of_one_lineage_and_no_two_lineages_share_a_hue() -> None:
    lineages = load_lineages(FAMILIES)
    families = load_families(FAMILIES)
    check_lineages(families.values(), lineages)
    assert {name for each in lineages.values() for name in each.families} <= set(families)
    hues = [hue for lineage in lineages.values() for hue in (lineage.light, lineage.dark)]
    assert len(set(hues)) == len(hues)
    for hue in hues:
        assert hue in style(lineages)


def test_a_family_that_is_not_named_is_of_the_lineage_of_what_it_extends() -> None:
    family = load_families(FAMILIES)["qwen3_moe"]
    lineages = load_lineages(FAMILIES)
    bare = {
        name: each.model_copy(update={"families": tuple(set(each.families) - {"qwen3_moe"})})
        for name, each in lineages.items()
    }
    assert getattr(kin_of(family, lineages), "id", None) == "qwen"
    assert getattr(kin_of(family, bare), "id", None) == "mixtures"  # of mixtral, which it extends
    with pytest.raises(SpecError, match=r"families/qwen3_moe/family.yml.*no lineage"):
        check_lineages([family], {"gpt": lineages["gpt"]})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("families: [qwen2,", "families: [llama, qwen2,", r"lineages.yml:\d+: llama is of the lineage llama already"),
        ('light: "#', 'light: "rgb', r"lineages.yml:\d+: "),
        ("    title: GPT", "    titel: GPT", r"lineages.yml:\d+: "),
    ],
)
def test_what_is_wrong_with_the_lineages_is_told_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (FAMILIES / "lineages.yml").read_text()
    (tmp_path / "lineages.yml").write_text(text.replace(old.strip() if old.startswith("    ") else old, new.strip(), 1))
    with pytest.raises(SpecError, match=said):
        load_lineages(tmp_path)
