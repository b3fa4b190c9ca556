"""Scripts for a model that only plays."""

from __future__ import annotations

import json

import pytest

from ai4j_agent import AgentConfigError, Message, ModelRequest, Role
from ai4j_cli.chat.scripted import load_script
from ai4j_sandbox import SandboxConfigError

REQUEST = ModelRequest(model="m", messages=[Message.user("hi")])


def test_steps_are_played_in_order_and_then_it_is_over(tmp_path):
    (tmp_path / "s.yaml").write_text("- {tool: bash, arguments: {command: ls}}\n- [{tool: a}, {tool: b}]\n- done\n")
    model, said = load_script(str(tmp_path / "s.yaml")), []

    first, second, third, fourth = (model.complete(REQUEST, on_text=said.append).message for _ in range(4))

    assert [(call.name, json.loads(call.arguments)) for call in first.tool_calls] == [("bash", {"command": "ls"})]
    assert [call.name for call in second.tool_calls] == ["a", "b"]
    assert third == Message(role=Role.ASSISTANT, text="done")
    assert said == ["done", "(the script has ended)"] == [third.text, fourth.text]


@pytest.mark.parametrize("text", ["hello: 1", "- 1", "- {tool: 1}", "- {tool: a, args: {}}", "- [[]]"])
def test_what_is_no_script_is_refused(tmp_path, text):
    (tmp_path / "s.yaml").write_text(text)

    with pytest.raises(AgentConfigError, match=r"must be a"):
        load_script(str(tmp_path / "s.yaml"))


def test_what_is_no_yaml_is_refused_with_its_line(tmp_path):
    (tmp_path / "s.yaml").write_text("- a\n- {")

    with pytest.raises(SandboxConfigError, match="line 2"):
        load_script(str(tmp_path / "s.yaml"))


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(AgentConfigError, match="cannot be read: No such file"):
        load_script("/no/such/file")
