"""mini-SWE-agent with the default configuration. The shell is a tool, or (TEXT) the answers contain the commands."""
import os
import sys
from pathlib import Path

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

config = yaml.safe_load((Path(builtin_config_dir) / ("mini_textbased.yaml" if os.environ.get("TEXT") else "mini.yaml")).read_text())
Model = LitellmTextbasedModel if os.environ.get("TEXT") else LitellmModel
config["model"].update(model_name="openai/mock-model", cost_tracking="ignore_errors", model_kwargs={"api_base": os.environ["OPENAI_BASE_URL"]})
config["agent"] = {k: v for k, v in config["agent"].items() if k in ("system_template", "instance_template", "format_error_template")} | {"step_limit": 7}
print(DefaultAgent(Model(**config["model"]), LocalEnvironment(cwd=os.environ["WORK"]), **config["agent"]).run(sys.argv[1]))
