"""An agent on LiteLLM, over the chat or the messages API, streamed or not."""
import json
import os
import sys

import litellm

from shell import bash

tools = [{"type": "function", "function": {"name": "bash", "description": "Run a command.", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]
model = {"chat": "openai/mock-model", "messages": "anthropic/claude-mock"}[os.environ["API"]]
base = os.environ["OPENAI_BASE_URL"] if os.environ["API"] == "chat" else os.environ["ANTHROPIC_BASE_URL"]
messages = [{"role": "system", "content": "Be brief."}]
for words in sys.argv[1:]:
    messages.append({"role": "user", "content": words})
    for _ in range(12):
        stream = bool(os.environ.get("STREAM"))
        done = litellm.completion(model=model, messages=messages, tools=tools, stream=stream, api_base=base)
        if stream:
            done = litellm.stream_chunk_builder(list(done), messages=messages)
        reply = done.choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            print(reply.content)
            break
        for call in reply.tool_calls:
            result = bash(json.loads(call.function.arguments)["command"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
