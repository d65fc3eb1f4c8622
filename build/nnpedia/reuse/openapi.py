"""The OpenAPI description of the JSON under `api/v1/`: an address for each document, with its schema."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from nnpedia.reuse.api import DOCUMENTS

_PARAMETERS = {
    "family": "A family's name: transformers' `model_type`.",
    "slug": "A checkpoint's name in the address, from the family's document: `meta-llama--Llama-3.2-1B`.",
}
# by the document's name: where it is, and what it is in a line
_PATHS = {
    "index": ("/index.json", "Where everything else is"),
    "families": ("/families.json", "Every family, in short"),
    "family": ("/families/{family}.json", "All that a family's page says"),
    "record": ("/families/{family}/{slug}.json", "The record of one checkpoint"),
    "values": ("/values.json", "The vocabulary's values on every family"),
    "laws": ("/laws.json", "The vocabulary's laws on every family"),
    "badges": ("/badges.json", "What the badges mean and who has them"),
}


def description() -> str:
    """The document, as JSON; servers and paths are told from where it stands."""
    models: list[tuple[type[BaseModel], Any]] = [(model, "serialization") for model in DOCUMENTS.values()]
    references, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")
    schemas = {name: references[model, "serialization"] for name, model in DOCUMENTS.items()}
    schemas["record"] = {
        "oneOf": [schemas["reference"], schemas["run"]],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {kind: schemas[kind]["$ref"] for kind in ("reference", "run")},
        },
    }
    document = {
        "openapi": "3.1.1",
        "info": {
            "title": "nnpedia",
            "version": version("nnpedia"),
            "summary": "The inside of transformer families, by name",
            "description": "Static files: what the pages of the encyclopedia say, as JSON.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": ".", "description": "the folder this description stands in"}],
        "paths": {path: operation(name, path, says, schemas[name]) for name, (path, says) in _PATHS.items()},
        "components": {"schemas": definitions["$defs"]},
    }
    return json.dumps(document, indent=1) + "\n"


def operation(name: str, path: str, says: str, schema: Any) -> dict[str, Any]:
    answer = {"description": says, "content": {"application/json": {"schema": schema}}}
    parameters = [
        {"name": each, "in": "path", "required": True, "description": told, "schema": {"type": "string"}}
        for each, told in _PARAMETERS.items()
        if f"{{{each}}}" in path
    ]
    missing = {"404": {"description": "There is no such file"}} if parameters else {}
    return {
        "get": {
            "operationId": f"get_{name}",
            "summary": says,
            "parameters": parameters,
            "responses": {"200": answer, **missing},
        }
    }
