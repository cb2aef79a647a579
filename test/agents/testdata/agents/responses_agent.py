"""An agent on the official Python SDK over the responses API: one shell tool, streamed, with the history in the program."""
import json
import os
import subprocess
import sys

from openai import OpenAI

client = OpenAI()
tools = [{"type": "function", "name": "bash", "description": "Run a command.", "strict": False, "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}]
history = []


def shell(command):
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=os.environ["WORK"])
    return f"{done.stdout}{done.stderr}\nExit code: {done.returncode}"


for words in sys.argv[1:]:
    history.append({"role": "user", "content": words})
    for _ in range(12):
        with client.responses.stream(model="mock-model", instructions="Be brief.", input=history, tools=tools, store=False) as stream:
            reply = stream.get_final_response()
        calls = [item for item in reply.output if item.type == "function_call"]
        history += [{"role": "assistant", "content": reply.output_text}] if reply.output_text else []
        history += [{"type": "function_call", "call_id": c.call_id, "name": c.name, "arguments": c.arguments} for c in calls]
        history += [{"type": "function_call_output", "call_id": c.call_id, "output": shell(json.loads(c.arguments)["command"])} for c in calls]
        if not calls:
            print(reply.output_text)
            break
