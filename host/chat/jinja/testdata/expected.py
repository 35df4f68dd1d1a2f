#!/usr/bin/env python3
"""Writes expected.json: each template of snippets.txt, one a line and a few of several lines, rendered by jinja2 set up as transformers
sets it up for chat templates (utils/chat_template_utils.py). An error is null: its words are the engine's. Run with jinja2 3.1.
"""
import json, pathlib
import jinja2, jinja2.ext, jinja2.sandbox

HERE = pathlib.Path(__file__).parent
SEVERAL_LINES = [
    "a\n  {% if true %}\n  b\n  {% endif %}\n  c\n",
    "  {% if true %}\n  b\n  {%- endif %}\n\n c\n\n",
    "x {% if true %}\n b\n{% endif %}\ny {{ 1 }}\n z\n{# note #}\n  {# note #}  \nend",
    "{% for x in l %}\n- {{ x }}\n{% endfor %}\nend\n",
    "{% for x in l -%}\n  {{ x }},\n{%- endfor +%}\n  end",
    "a\n\n{%- set x = 1 %}\n\n{{- x }}\n\n{%+ if x %}\nb{% endif %}\n\n",
    "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\r\n",
    "{% raw %}\n {{ a }}\n{% endraw %}\n b",
    "\n{% macro m(a) -%}\n  {{ a }}\n{%- endmacro %}\n{{ m(1) }}\n {% set q %}\n x\n {% endset %}\n{{ q }}|",
    "    {#- a -#}\n    b {#- c #}\n d\n",
]
VARIABLES = {
    "l": [1, 2, 3], "d": {"k": "v", "é": [1, None, 2.0]}, "items": {"items": 1, "a": "b"},
    "ms": [{"role": "user", "content": "Hi é"}, {"role": "assistant", "content": "yes", "flag": True}, {"role": "user", "content": [{"text": "t"}, {"text": "u"}]}],
}


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception

cases = []
for source in (HERE / "snippets.txt").read_text().splitlines() + SEVERAL_LINES:
    try:
        text = env.from_string(source).render(**VARIABLES)
    except Exception as e:
        print(f"{source!r}: {type(e).__name__}: {e}")
        text = None
    cases.append({"template": source, "text": text})
(HERE / "expected.json").write_text(json.dumps({"variables": VARIABLES, "cases": cases}, ensure_ascii=False, indent=1) + "\n")
