#!/usr/bin/env bash
# agents.sh [-i] [AGENT...]   runs real agents against a scripted model, directly and through precept; -i only installs the agents.
#
# Missing agents are installed from npm and PyPI, in the versions below, into AGENTS_HOME (default: .cache/agents of this clone), one
# folder per agent; each Python agent has its own environment. A failed installation is printed and skipped. Then TestAgents runs
# the rows whose names begin with one of the arguments and prints the matrix, and TestAgentsLoad runs fifty simultaneous
# conversations of each Python agent; without arguments both run all. All traffic is on loopback; homes and projects are temporary folders.
# AGENTS_LIMIT: maximum duration of one agent call (90s). AGENTS_KEEP=DIR: writes the requests into DIR.
# AGENTS_RULES=1: measures only the columns about rules files.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export AGENTS_HOME=${AGENTS_HOME:-$root/.cache/agents}
export npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false

packages() { # the npm packages in a folder
  case $1 in
  node22) echo node@22.23.3 ;;
  opencode) echo opencode-ai@1.18.33 ;;
  qwen) echo @qwen-code/qwen-code@0.24.4 ;;
  pi) echo @mariozechner/pi-coding-agent@0.73.1 ;;
  codex) echo @openai/codex@0.171.0 ;;
  claude) echo @anthropic-ai/claude-code@2.1.332 ;;
  cline) echo cline@3.0.65 ;;
  copilot) echo @github/copilot@1.0.102 ;;
  continue) echo @continuedev/cli@1.5.47 ;;
  oai) echo openai@7.55.0 @openai/agents@0.20.0 zod@4.6.7 ;;
  aisdk) echo ai@7.0.173 @ai-sdk/openai@4.0.118 @ai-sdk/openai-compatible@3.0.92 @ai-sdk/anthropic@4.0.105 zod@4.6.7 ;;
  langchain) echo @langchain/openai@1.1 @langchain/core@1.1 zod@4.6.7 ;;
  *) return 1 ;;
  esac
}

distributions() { # the PyPI packages in a folder
  case $1 in
  langgraph) echo langgraph==1.2.22 langchain==1.4.7 langchain-openai==1.7.3 langchain-anthropic==1.7.7 ;;
  pydantic-ai) echo 'pydantic-ai-slim[openai,anthropic]==2.68.0' ;;
  llamaindex) echo llama-index-core==0.14.25 llama-index-llms-openai==0.8.3 ;;
  smolagents) echo 'smolagents[openai]==1.26.0' ;;
  sdks) echo openai==3.54.0 anthropic==2.12.0 ;;
  openai-agents) echo openai-agents==0.24.0 ;;
  deepagents) echo deepagents==0.7.32 langchain-openai==1.7.3 ;;
  autogen) echo autogen-agentchat==0.7.5 'autogen-ext[openai]==0.7.5' ;;
  ag2) echo 'ag2[openai]==1.2.1' ;;
  agno) echo agno==3.1.10 openai==3.54.0 anthropic==2.12.0 ;;
  litellm) echo litellm==1.106.2 mcp==2.3.0 ;; # litellm imports mcp without a declared dependency
  strands) echo 'strands-agents[openai,anthropic]==1.62.0' ;;
  haystack) echo haystack-ai==3.4.0 ;;
  semantic-kernel) echo semantic-kernel==1.45.0 ;;
  google-adk) echo google-adk==2.13.0 litellm==1.106.2 mcp==2.3.0 ;;
  agent-framework) echo agent-framework-core==1.23.0 agent-framework-openai==1.17.0 ;;
  crewai) echo crewai==1.15.30 ;;
  openhands) echo openhands-sdk==1.58.0 openhands-tools==1.58.0 ;;
  claude-agent-sdk) echo claude-agent-sdk==0.2.187 ;;
  mini-swe) echo mini-swe-agent==2.4.6 litellm==1.110.2 mcp==2.3.0 ;;
  aider) echo aider-chat==0.86.2 ;;
  camel) echo camel-ai==0.2.90 mcp==1.30.0 ;;
  gptme) echo gptme==0.35.1 ;;
  dspy) echo dspy==3.4.1 ;;
  *) return 1 ;;
  esac
}

# python_of prints a folder's interpreter: any from 3.10 on for most agents, a certain version for some.
python_of() {
  local wanted=
  case $1 in
  openhands) wanted='3.13 3.12' ;;
  aider) wanted='3.12 3.11 3.10' ;;
  esac
  for v in $wanted; do
    for python in "python$v" "$HOME/.pyenv/versions/$v".*/bin/python3; do
      "$python" -c '' 2>/dev/null && { echo "$python"; return; }
    done
  done
  echo python3
}

# present reports whether a folder holds all packages, each with the required version prefix.
present() {
  local dir=$AGENTS_HOME/$1 spec name want have
  for spec in $(packages "$1"); do
    name=${spec%@*} want=${spec##*@}
    have=$(sed -n 's/^[[:space:]]*"version": "\(.*\)",*$/\1/p' "$dir/node_modules/$name/package.json" 2>/dev/null | head -n 1)
    case $have. in "$want".*) ;; *) return 1 ;; esac
  done
}

install() {
  local dir=$AGENTS_HOME/$1 list
  if list=$(distributions "$1"); then
    [ "$(cat "$dir/.installed" 2>/dev/null)" = "$list" ] && return 0
    echo "installing $list into $dir" >&2
    rm -rf "$dir"
    # shellcheck disable=SC2086 # one word per package
    if "$(python_of "$1")" -m venv "$dir" && "$dir/bin/pip" install --quiet --disable-pip-version-check $list; then
      echo "$list" >"$dir/.installed"
    else
      echo "skipped: $1 cannot be installed here ($list); its rows are left out" >&2
      rm -rf "$dir"
    fi
    return 0
  fi
  present "$1" && return 0
  echo "installing $(packages "$1") into $dir" >&2
  mkdir -p "$dir"
  [ -f "$dir/package.json" ] || echo '{"private": true}' >"$dir/package.json"
  # shellcheck disable=SC2046 # one word per package
  npm install --prefix "$dir" --save-exact --legacy-peer-deps --loglevel=error $(packages "$1") ||
    echo "skipped: $1 cannot be installed here ($(packages "$1")); its rows fail" >&2
}

folder_of() { # a row's folder
  local folder
  for folder in "${known[@]}"; do
    case $1 in "$folder" | "$folder"-*) echo "$folder"; return ;; esac
  done
  case $1 in
  openai-python*) echo sdks ;;
  mini-swe-agent*) echo mini-swe ;;
  *) echo "$1" ;;
  esac
}

known=(opencode qwen pi codex claude-agent-sdk claude cline copilot continue oai aisdk langchain langgraph pydantic-ai llamaindex smolagents
  sdks openai-agents deepagents autogen ag2 agno litellm strands haystack semantic-kernel google-adk agent-framework crewai openhands
  mini-swe aider camel gptme dspy)
only=
if [ "${1:-}" = -i ]; then only=1 && shift; fi
folders=()
for word in "$@"; do
  case $word in
  openai-agents* | openai-python*) folders+=("$(folder_of "$word")") ;;
  openai* | agents*) folders+=(oai) ;;
  python*) ;;
  *) word=$(folder_of "$word"); packages "$word" >/dev/null || distributions "$word" >/dev/null || { echo "no agent $word" >&2; exit 2; }; folders+=("$word") ;;
  esac
done
[ $# -gt 0 ] || folders=("${known[@]}")
install node22
export PATH=$AGENTS_HOME/node22/node_modules/node/bin:$PATH # agents need node 22, and npm selects versions for its own node
for folder in "${folders[@]}"; do
  install "$folder"
  case $folder in camel | gptme) install litellm ;; esac # both read litellm's token tables
done
[ -z "$only" ] || exit 0

run=TestAgents
[ -z "${AGENTS_RULES:-}" ] || run='^TestAgents$'
[ $# -eq 0 ] || run="$run/^($(IFS='|' && echo "$*"))"
cd "$root"
PRECEPT_AGENTS=1 "${GO:-go}" test ./test/agents -count=1 -timeout 3h -v -run "$run"
