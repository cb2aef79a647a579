// An agent on the OpenAI Agents SDK; API selects one of the SDK's two APIs.
import { tasks, api, load, shell } from './shell.mjs';

const { Agent, run, tool, setOpenAIAPI, setTracingDisabled } = load('@openai/agents');
const { z } = load('zod');
setTracingDisabled(true);
setOpenAIAPI(api);
const bash = tool({ name: 'bash', description: 'Run a command.', parameters: z.object({ command: z.string() }), execute: async (a) => shell(a) });
const agent = new Agent({ name: 'builder', instructions: 'Be brief.', model: 'mock-model', tools: [bash] });

let history = [];
for (const words of tasks) {
  const result = await run(agent, [...history, { role: 'user', content: words }], { stream: true, maxTurns: 12 });
  for await (const _ of result) { /* to its end */ }
  await result.completed;
  console.log(result.finalOutput);
  history = result.history;
}
