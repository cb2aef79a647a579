"""An agent on CAMEL."""
import os
import sys

import tables  # noqa: F401  before CAMEL counts its first token
from camel.agents import ChatAgent
from camel.models import ModelFactory
from camel.toolkits import FunctionTool
from camel.types import ModelPlatformType

from shell import bash

model = ModelFactory.create(model_platform=ModelPlatformType.OPENAI_COMPATIBLE_MODEL, model_type="mock-model",
                            url=os.environ["OPENAI_BASE_URL"], api_key="sk-test")
agent = ChatAgent("Be brief.", model=model, tools=[FunctionTool(bash)])
for words in sys.argv[1:]:
    print(agent.step(words).msgs[-1].content)
