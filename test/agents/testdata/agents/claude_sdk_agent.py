"""An agent on the Claude Agent SDK, with the bundled Claude Code."""
import asyncio
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage


async def main():
    options = ClaudeAgentOptions(allowed_tools=["Bash"], cwd=os.environ["WORK"], system_prompt={"type": "preset", "preset": "claude_code"})
    async with ClaudeSDKClient(options) as client:
        for words in sys.argv[1:]:
            await client.query(words)
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    print(message.result)


asyncio.run(main())
