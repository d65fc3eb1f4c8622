"""What a program would be wronged by: JSON that its schema does not describe, or that says less than the page."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import openapi_spec_validator
import pytest
import sample_records as samples
import yaml
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from nnpedia import reuse, views
from nnpedia.badges import load_badges
from nnpedia.entry import Entry, load_entry
from nnpedia.family import load_families
from nnpedia.reuse import api

FAMILIES = samples.FAMILIES


@pytest.fixture(scope="module")
def entries() -> dict[str, Entry]:
    """Every family, phimoe with records and the others without."""
    plain = {name: load_entry(family, []) for name, family in load_families(FAMILIES).items()}
    return {**plain, "phimoe": samples.entry(FAMILIES / "phimoe")}


@pytest.fixture(scope="module")
def files(entries: dict[str, Entry]) -> dict[str, str]:
    of_each = {name: text for entry in entries.values() for name, text in reuse.family_data(entry).items()}
    return reuse.data(entries, load_badges(FAMILIES)) | of_each


def loaded(files: dict[str, str], name: str) -> Any:
    return json.loads(files[f"{api.ROOT}/{name}"])


def schema_of(path: str, content: Any) -> str:
    """The name of the schema of a file under the API's root."""
    parts = path.removesuffix(".json").split("/")
    return parts[0] if len(parts) == 1 else "family" if len(parts) == 2 else content["kind"]


def test_every_document_is_as_its_schema_says(files: dict[str, str]) -> None:
    seen = set()
    for path, text in files.items():
        name = path.removeprefix(f"{api.ROOT}/")
        if not path.startswith(api.ROOT) or name.startswith("schema/") or name == "openapi.json":
            continue
        content = json.loads(text)
        schema = loaded(files, f"schema/{schema_of(name, content)}.json")
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(content)
        seen.add(schema_of(name, content))
    assert seen == set(api.DOCUMENTS)


def test_a_schema_refuses_what_is_no_such_document(files: dict[str, str]) -> None:
    schema = loaded(files, "schema/family.json")
    family = loaded(files, "families/phimoe.json")
    for wrong in ({**family, "values": None}, {**family, "extra": 1}, loaded(files, "values.json")):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(schema).validate(wrong)


def test_the_openapi_description_is_valid_and_describes_the_files(files: dict[str, str]) -> None:
    document = loaded(files, "openapi.json")
    openapi_spec_validator.validate(document)
    registry = Registry().with_resource("urn:api", Resource.from_contents(document, DRAFT202012))
    names = {"family": "phimoe", "slug": next(iter(api.slugs(samples.entry(FAMILIES / "phimoe").facts)))}
    for path, item in document["paths"].items():
        schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        options = [each["$ref"] for each in schema.get("oneOf", [schema])]
        content = loaded(files, path.lstrip("/").format(**names))
        valid = [
            jsonschema.Draft202012Validator({"$ref": f"urn:api{option}"}, registry=registry).is_valid(content)
            for option in options
        ]
        assert valid.count(True) == 1, path


def test_a_familys_document_says_what_its_page_says(entries: dict[str, Entry], files: dict[str, str]) -> None:
    entry = entries["phimoe"]
    document = loaded(files, "families/phimoe.json")
    rows = [row for host in views.host_views(entry) for row in host.rows]
    assert [each["expression"] for each in document["values"]] == [row.expression for row in rows]
    assert [each["condition"] for each in document["values"]] == [row.condition for row in rows]
    assert {(probe["load"], probe["found"]) for each in document["values"] for probe in each["probes"]} >= {
        ("sdpa+eager", True),
        ("sdpa+eager", False),
    }
    assert {(each["host"], each["name"]) for each in document["absent"]} | {
        (each["host"], each["name"]) for each in document["values"]
    } == set(views.facts_of(entry))
    assert [each["code"] for each in document["snippets"]] == [snippet.code for snippet in entry.snippets]
    assert [each["name"] for each in document["checkpoints"]] == [fact.origin.name for fact in entry.facts]
    for each in document["checkpoints"]:
        record = next(fact for fact in entry.facts if fact.origin.name == each["name"] and fact.kind == each["kind"])
        assert json.loads(files[each["url"]]) == record.model_dump(mode="json")


def test_every_address_in_the_api_leads_to_a_file(files: dict[str, str]) -> None:
    index = loaded(files, "index.json")
    families = loaded(files, "families.json")["families"]
    named = [*index["schemas"].values(), *(index[key] for key in ("families", "values", "laws", "badges", "openapi"))]
    assert {*named, *(each["url"] for each in families)} <= set(files)
    assert [each["family"] for each in families] == sorted(path.parent.name for path in FAMILIES.glob("*/family.yml"))


def test_slugs_are_safe_and_no_two_are_alike() -> None:
    reference, run = samples.entry(FAMILIES / "phimoe").facts[0], samples.entry(FAMILIES / "phimoe").runs[0]

    def named(record: Any, name: str) -> Any:
        return record.model_copy(update={"origin": record.origin.model_copy(update={"name": name})})

    names = ["a/B-1.5", "a/b-1.5", "../x y?#%é", "a--B-1.5"]
    found = list(api.slugs([*(named(reference, name) for name in names), named(run, "a/B-1.5")]))
    assert found[0] == "a--B-1.5"
    assert len({slug.lower() for slug in found}) == 5
    assert all(set(slug) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") for slug in found)


def test_the_schemas_for_editors_take_every_spec_and_refuse_a_misspelt_key(files: dict[str, str]) -> None:
    family = jsonschema.Draft202012Validator(loaded(files, "schema/family.yml.json"))
    specs = [yaml.safe_load(path.read_text()) for path in sorted(FAMILIES.glob("*/family.yml"))]
    for spec in specs:
        family.validate(spec)
    assert not family.is_valid({**specs[0], "sizs": {}})
    vocabulary = jsonschema.Draft202012Validator(loaded(files, "schema/vocabulary.yml.json"))
    vocabulary.validate(yaml.safe_load((FAMILIES / "vocabulary.yml").read_text()))
