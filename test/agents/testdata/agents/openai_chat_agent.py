"""An agent on OpenAI's official Python SDK over chat completions, streamed or not."""
import json
import os
import sys

from openai import OpenAI

from shell import bash

client = OpenAI()
tools = [{"type": "function", "function": {"name": "bash", "description": "Run a command.", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]
messages = [{"role": "system", "content": "Be brief."}]
for words in sys.argv[1:]:
    messages.append({"role": "user", "content": words})
    for _ in range(12):
        if os.environ.get("STREAM"):
            with client.chat.completions.stream(model="mock-model", messages=messages, tools=tools) as stream:
                reply = stream.get_final_completion().choices[0].message
        else:
            reply = client.chat.completions.create(model="mock-model", messages=messages, tools=tools).choices[0].message
        messages.append(reply.model_dump(exclude_none=True, exclude={"parsed"}))
        if not reply.tool_calls:
            print(reply.content)
            break
        for call in reply.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": bash(json.loads(call.function.arguments)["command"])})
