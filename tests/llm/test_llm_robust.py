"""Answers as models give them: refused, cut off, fenced, malformed, empty, repeated, too long."""

from __future__ import annotations

import msgspec
import pytest
from fake_llm_server import Say, Status, Use
from hypothesis import given
from hypothesis import strategies as st
from llm_helpers import CODE, GOOD, WIRES, Asker, in_a_running_loop, notation

from maxkernel.engineers.llm.question import PROMPT_ROOM, TURNS
from maxkernel.engineers.llm.robust import BadAnswer, code_of, json_of, prose_of
from maxkernel.engineers.roles import NoAnswer


class Idea(msgspec.Struct):
    strategy: str
    speedup: float = 1.0


FENCED = {
    "plain": f"```python\n{CODE}```",
    "no language": f"```\n{CODE}```",
    "tildes": f"~~~python\n{CODE}~~~",
    "bare": CODE,
    "indented fence": f"  ```py\n{CODE}  ```",
    "talk around": f"Sure!\n\n```python\n{CODE}```\n\nThis should be 2x faster.",
    "fence never closed": f"```python\n{CODE}",
    "snippet first": f"```python\nx = 1\n```\n\n```python\n{CODE}```",
    "shell beside": f"```bash\npip install jax\n```\n```python\n{CODE}```",
    "four ticks": f"````python\n{CODE}````",
    "in two blocks": "```python\ndef _body(r):\n    pass\n```\nand\n```python\n" + CODE + "```",
    "assigned": "```python\nkernel = lambda x: x\n```",
}


@pytest.mark.parametrize("text", FENCED.values(), ids=FENCED)
def test_code_is_found(text: str):
    assert "kernel" in code_of(text)
    compile(code_of(text), "kernel", "exec")


BAD_CODE = {
    "refusal": ("I'm sorry, but I can't help with that.", "refusal"),
    "empty": ("  \n", "empty"),
    "chatter": ("You could use a Pallas kernel with a grid.", "no_code"),
    "syntax": ("```python\ndef kernel(x)\n    return x\n```", "no_code"),
    "cut off": ("```python\ndef kernel(x):\n    return jnp.dot(x,", "truncated"),
    "no kernel": ("```python\nprint(1)\n```", "no_code"),
}


@pytest.mark.parametrize(("text", "kind"), BAD_CODE.values(), ids=BAD_CODE)
def test_unusable_code_is_named(text: str, kind: str):
    with pytest.raises(BadAnswer) as caught:
        code_of(text)
    assert caught.value.kind == kind
    assert caught.value.complaint


GOOD_JSON = {
    "plain": '[{"strategy": "fuse", "speedup": 2}]',
    "fenced": 'Plans:\n```json\n[{"strategy": "fuse", "speedup": "2"}]\n```',
    "talk around": 'I propose [{"strategy": "fuse", "speedup": 2.0}] as said.',
    "brackets in talk": 'See [1] and {2}. [{"strategy": "fuse", "speedup": 2, "more": [1]}]',
}


@pytest.mark.parametrize("text", GOOD_JSON.values(), ids=GOOD_JSON)
def test_json_is_found(text: str):
    assert json_of(text, list[Idea]) == [Idea("fuse", 2.0)]


BAD_JSON = {
    "missing field": ('[{"speedup": 2}]', "schema"),
    "wrong type": ('[{"strategy": 3}]', "schema"),
    "no json": ("fuse everything", "schema"),
    "cut off": ('[{"strategy": "fu', "truncated"),
    "refusal": ("I cannot help with this request.", "refusal"),
}


@pytest.mark.parametrize(("text", "kind"), BAD_JSON.values(), ids=BAD_JSON)
def test_wrong_json_is_named(text: str, kind: str):
    with pytest.raises(BadAnswer) as caught:
        json_of(text, list[Idea])
    assert caught.value.kind == kind


@given(st.text(max_size=400))
def test_no_text_breaks_the_readers(text: str):
    for read in (code_of, lambda t: json_of(t, list[Idea]), prose_of):
        try:
            read(text)
        except BadAnswer as bad:
            assert bad.complaint


@given(st.text(alphabet='`~\n def kernel(x):python{}[]"', max_size=300))
def test_no_fence_breaks_the_readers(text: str):
    for read in (code_of, lambda t: json_of(t, list[Idea])):
        try:
            read(text)
        except BadAnswer as bad:
            assert bad.complaint


@pytest.mark.parametrize("wire", WIRES)
def test_an_unusable_answer_is_sent_back_with_the_reason(server, wire):
    server.script(Say("```python\ndef kernel(x)\n```"), GOOD)
    one = Asker(notation(server, wire))
    assert one.ask() == CODE
    assert "not valid Python" in server.requests[1].text
    assert one.desk.troubles.counts() == {"no_code": 1}


@pytest.mark.parametrize("wire", WIRES)
def test_a_refusal_in_words_is_answered_once_more(server, wire):
    server.script(Say("I'm sorry, but I can't help with that."), GOOD)
    one = Asker(notation(server, wire))
    assert one.ask() == CODE
    assert "ordinary engineering" in server.requests[1].text
    assert one.desk.troubles.counts() == {"refusal": 1}


@pytest.mark.parametrize("wire", WIRES)
def test_a_wrong_schema_is_sent_back_with_what_is_missing(server, wire):
    server.script(Say('[{"speedup": 2}]'), Say('[{"strategy": "fuse"}]'))
    one = Asker(notation(server, wire))
    assert one.ask(parse=lambda text: json_of(text, list[Idea])) == [Idea("fuse")]
    assert "strategy" in server.requests[1].text
    assert one.desk.troubles.counts() == {"schema": 1}


@pytest.mark.parametrize("wire", WIRES)
def test_an_empty_answer_is_asked_for_again(server, wire):
    server.script(Say(""), GOOD)
    one = Asker(notation(server, wire))
    assert one.ask() == CODE
    assert len(server.requests) == 2


@pytest.mark.parametrize("wire", WIRES)
def test_a_providers_filter_passes_the_question_on(server, wire):
    server.respond(
        lambda r: GOOD if "some-local-model" in r.text else Say("I cannot.", finish="refusal")
    )
    one = Asker(notation(server, wire), notation(server, "url"))
    assert one.ask() == CODE
    assert one.desk.troubles.counts()["refusal"] >= 1


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_cut_off_before_it_began_gets_more_room(server, wire):
    server.script(Say("", finish="length"), GOOD)
    one = Asker(notation(server, wire))
    assert one.ask() == CODE
    limits = [limit(request.body) for request in server.requests]
    assert limits[1] == 2 * limits[0]
    assert one.desk.troubles.counts() == {"truncated": 1}


def limit(body: dict) -> int:
    """The longest answer that a request asks for, in any wire format."""
    google = body.get("generationConfig", {}).get("maxOutputTokens")
    return google or body.get("max_tokens") or body["max_completion_tokens"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_cut_off_file_is_asked_for_again(server, wire):
    server.script(Say("```python\ndef kernel(x):\n    return jnp.dot(", finish="length"), GOOD)
    one = Asker(notation(server, wire))
    assert one.ask() == CODE
    assert one.desk.troubles.counts() == {"truncated": 1}


@pytest.mark.parametrize("wire", WIRES)
def test_the_same_bad_answer_twice_ends_the_question(server, wire):
    server.script(Say("nothing here"))
    one = Asker(notation(server, wire))
    with pytest.raises(NoAnswer, match="same unusable answer"):
        one.ask()
    assert len(server.requests) == 2
    assert one.desk.troubles.counts() == {"no_code": 2, "loop": 1}


@pytest.mark.parametrize("wire", WIRES)
def test_corrections_are_bounded(server, wire):
    count = iter(range(100))
    server.respond(lambda _: Say(f"nothing {next(count)}"))
    one = Asker(notation(server, wire))
    with pytest.raises(NoAnswer):
        one.ask()
    assert len(server.requests) == 3


@pytest.mark.parametrize("wire", WIRES)
def test_a_model_that_only_calls_tools_is_stopped(server, wire):
    def look(query: str) -> str:
        """Looks."""
        return "nothing"

    server.script(Use("look", {"query": "again"}))
    one = Asker(notation(server, wire))
    with pytest.raises(NoAnswer, match=f"no answer after {TURNS} turns"):
        one.ask(tools=(look,))
    assert len(server.requests) == TURNS
    assert one.desk.troubles.counts() == {"loop": 1}


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_that_does_not_exist_is_explained(server, wire):
    def look(query: str) -> str:
        """Looks."""
        return "nothing"

    server.script(Use("no_such_tool", {}), GOOD)
    assert Asker(notation(server, wire)).ask(tools=(look,)) == CODE
    assert "no_such_tool" in server.requests[1].text


TOO_LONG = {
    "openai": Status(400, "maximum context length is 8192 tokens", kind="context_length_exceeded"),
    "anthropic": Status(
        400, "prompt is too long: 210000 tokens > 200000 maximum", kind="invalid_request_error"
    ),
    "google": Status(
        400,
        "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
        kind="INVALID_ARGUMENT",
    ),
}


@pytest.mark.parametrize("wire", WIRES)
def test_a_question_too_long_is_condensed(server, wire):
    rooms: list[int] = []

    def prompt(room: int) -> str:
        rooms.append(room)
        return "history " * (room // 1000)

    server.respond(lambda r: TOO_LONG[wire] if r.text.count("history") > 20 else GOOD)
    one = Asker(notation(server, wire))
    assert one.ask(prompt=prompt) == CODE
    assert rooms == [PROMPT_ROOM, PROMPT_ROOM // 2, PROMPT_ROOM // 4]
    assert one.desk.troubles.counts() == {"context": 2}


@pytest.mark.parametrize("wire", WIRES)
def test_a_question_that_never_fits_ends(server, wire):
    server.script(TOO_LONG[wire])
    one = Asker(notation(server, wire))
    with pytest.raises(NoAnswer, match="does not fit"):
        one.ask()
    assert len(server.requests) == 4


def test_a_model_answers_inside_a_running_loop(server):
    """A notebook's cell runs inside one."""
    server.script(GOOD)
    one = Asker(notation(server, "openai"))
    assert in_a_running_loop(one.ask) == CODE
