"""An agent on Anthropic's official Python SDK: one shell tool, streamed."""
import os
import subprocess
import sys

from anthropic import Anthropic

client = Anthropic()
tools = [{"name": "bash", "description": "Run a command.", "input_schema": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}]
messages = []


def run(call):
    done = subprocess.run(["sh", "-c", call.input["command"]], capture_output=True, text=True, cwd=os.environ["WORK"])
    return {"type": "tool_result", "tool_use_id": call.id, "is_error": done.returncode != 0,
            "content": f"{done.stdout}{done.stderr}\nExit code: {done.returncode}"}


for words in sys.argv[1:]:
    messages.append({"role": "user", "content": words})
    for _ in range(12):
        with client.messages.stream(model="mock-model", max_tokens=1000, system="Be brief.", messages=messages, tools=tools) as stream:
            reply = stream.get_final_message()
        messages.append({"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in reply.content]})
        calls = [b for b in reply.content if b.type == "tool_use"]
        if not calls:
            print(reply.content[0].text)
            break
        messages.append({"role": "user", "content": [run(c) for c in calls]})
