"""Points tiktoken to the tables that LiteLLM ships, so that programs download none."""
import glob
import os
import sys

os.environ["TIKTOKEN_CACHE_DIR"] = glob.glob(sys.prefix + "/../litellm/lib/python*/site-packages/litellm/litellm_core_utils/tokenizers")[0]
