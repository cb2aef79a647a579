"""Where tiktoken's tables are, for programs that would fetch them: LiteLLM brings them along."""
import glob
import os
import sys

os.environ["TIKTOKEN_CACHE_DIR"] = glob.glob(sys.prefix + "/../litellm/lib/python*/site-packages/litellm/litellm_core_utils/tokenizers")[0]
