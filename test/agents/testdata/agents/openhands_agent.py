"""An agent on OpenHands' SDK."""
import os
import sys

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.terminal import TerminalTool

llm = LLM(model="openai/mock-model", base_url=os.environ["OPENAI_BASE_URL"], api_key="sk-test", stream=bool(os.environ.get("STREAM")), usage_id="agent")
conversation = Conversation(Agent(llm=llm, tools=[Tool(name=TerminalTool.name)]), workspace=os.environ["WORK"], visualizer=None,
                            stuck_detection=False, token_callbacks=[lambda chunk: None] if os.environ.get("STREAM") else None)
for words in sys.argv[1:]:
    conversation.send_message(words)
    conversation.run()
print("ended")
conversation.close()
