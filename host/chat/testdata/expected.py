#!/usr/bin/env python3
"""Writes expected.json: each template of this folder rendered for each conversation of conversations.json, by jinja2 set up as
transformers sets it up for chat templates (utils/chat_template_utils.py). Run with jinja2 3.1: python3 expected.py

smollm2.jinja is the template in SmolLM2-135M-Instruct's GGUF (key tokenizer.chat_template); the others were written for these
tests, in the manner of the models that they are named after.
"""
import datetime, json, pathlib
import jinja2, jinja2.ext, jinja2.sandbox

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2026, 3, 9, 4, 5, 6)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = NOW.strftime

expected = []
for path in sorted(HERE.glob("*.jinja")):
    template = env.from_string(path.read_text())
    for c in json.loads((HERE / "conversations.json").read_text()):
        entry = {"template": path.stem, "conversation": c["name"]}
        try:
            entry["text"] = template.render(**{**c.get("variables", {}), "messages": c["messages"], "tools": c.get("tools"), "documents": None,
                                               "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": c.get("add_generation_prompt", True)})
        except jinja2.exceptions.TemplateError as e:
            entry["error"] = e.message
        expected.append(entry)
(HERE / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
