"""An agent on Semantic Kernel, streamed or not, with its thread."""
import asyncio
import os
import sys

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function

import shell


class Shell:
    @kernel_function(name="bash", description="Run a command.")
    def bash(self, command: str) -> str:
        return shell.bash(command)


async def main():
    service = OpenAIChatCompletion(ai_model_id="mock-model", async_client=AsyncOpenAI())
    agent = ChatCompletionAgent(service=service, name="builder", instructions="Be brief.", plugins=[Shell()])
    thread = None
    for words in sys.argv[1:]:
        if os.environ.get("STREAM"):
            async for part in agent.invoke_stream(words, thread=thread):
                thread = part.thread
                print(part.content, end="")
            print()
        else:
            done = await agent.get_response(words, thread=thread)
            thread = done.thread
            print(done.content)


asyncio.run(main())
