"""A crew of one on CrewAI, streamed or not: a task, and a second task that gets the first result."""
import os
import sys

from crewai import Agent, Crew, LLM, Task
from crewai.tools import tool

import shell


@tool("bash")
def bash(command: str) -> str:
    """Run a command."""
    return shell.bash(command)


llm = LLM(model="openai/gpt-4.1", base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"], stream=bool(os.environ.get("STREAM")))
agent = Agent(role="builder", goal="Build.", backstory="You build.", tools=[bash], llm=llm, max_iter=12)
tasks = [Task(description=words, expected_output="one sentence", agent=agent) for words in sys.argv[1:]]
print(Crew(agents=[agent], tasks=tasks, tracing=False).kickoff())
