// An agent on the OpenAI Agents SDK; API says over which of its two APIs.
import { task, more, base, api, load, shell } from './shell.mjs';

const { Agent, run, tool, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled } = load('@openai/agents');
const { OpenAI } = load('openai');
const { z } = load('zod');
setTracingDisabled(true);
setOpenAIAPI(api);
setDefaultOpenAIClient(new OpenAI({ baseURL: base }));
const bash = tool({ name: 'bash', description: 'Run a command.', parameters: z.object({ command: z.string() }), execute: async (a) => shell(a) });
const agent = new Agent({ name: 'builder', instructions: 'Be brief.', model: 'mock-model', tools: [bash] });

const first = await run(agent, task, { stream: true, maxTurns: 12 });
for await (const _ of first) { /* to its end */ }
await first.completed;
console.log(first.finalOutput);
const second = await run(agent, [...first.history, { role: 'user', content: more }], { maxTurns: 12 });
console.log(second.finalOutput);
