"""An agent on the official SDK: one shell tool, streamed or not. Usage: sdk.py stream|plain TASK"""
import json
import os
import subprocess
import sys

from openai import OpenAI

mode, task = sys.argv[1], sys.argv[2]
client = OpenAI(api_key="sk-test", max_retries=2)
tools = [{"type": "function", "function": {"name": "bash", "description": "Run a command.", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": task}]


def ask():
    if mode == "plain":
        message = client.chat.completions.create(model="gpt-test", messages=messages, tools=tools).choices[0].message
        return message.content, [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or []]
    text, calls = "", {}
    for chunk in client.chat.completions.create(
            model="gpt-test", messages=messages, tools=tools, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for c in choice.delta.tool_calls or []:
                call = calls.setdefault(c.index, ["", "", ""])
                call[0] = c.id or call[0]
                call[1] = (c.function.name or "") + call[1]
                call[2] += c.function.arguments or ""
    return text, [tuple(c) for c in calls.values()]


for _ in range(12):
    text, calls = ask()
    if not calls:
        print(text)
        sys.exit(0)
    messages.append({"role": "assistant", "content": text or None, "tool_calls": [
        {"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]})
    for i, _, a in calls:
        done = subprocess.run(["sh", "-c", json.loads(a)["command"]], capture_output=True, text=True, cwd=os.environ["WORK"])
        messages.append({"role": "tool", "tool_call_id": i, "content": f"{done.stdout}{done.stderr}\nExit code: {done.returncode}"})
sys.exit(3)
