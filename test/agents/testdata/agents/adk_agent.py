"""An agent on Google's ADK through LiteLLM, streamed or not."""
import asyncio
import os
import sys

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

from shell import bash

model = LiteLlm(model="openai/mock-model", api_base=os.environ["OPENAI_BASE_URL"])
agent = LlmAgent(name="builder", model=model, instruction="Be brief.", tools=[bash])


async def main():
    runner = InMemoryRunner(agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    config = RunConfig(streaming_mode=StreamingMode.SSE if os.environ.get("STREAM") else StreamingMode.NONE)
    for words in sys.argv[1:]:
        said = types.Content(role="user", parts=[types.Part(text=words)])
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=said, run_config=config):
            if event.is_final_response() and event.content:
                print("".join(p.text or "" for p in event.content.parts))


asyncio.run(main())
