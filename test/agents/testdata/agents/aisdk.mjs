// A program on the AI SDK; API selects the provider package. It keeps every step's messages, as the documentation
// advises.
import { tasks, api, load, shell } from './shell.mjs';

const ai = load('ai');
const { z } = load('zod');
const model = {
  compatible: () => load('@ai-sdk/openai-compatible').createOpenAICompatible({ name: 'mine', baseURL: process.env.OPENAI_BASE_URL, includeUsage: true })('mock-model'),
  responses: () => load('@ai-sdk/openai').openai('mock-model'),
  anthropic: () => load('@ai-sdk/anthropic').anthropic('mock-model'),
}[api]();
const bash = ai.tool({ description: 'Run a command.', inputSchema: z.object({ command: z.string() }), execute: async (a) => shell(a) });
const messages = [];
let failed = false;

for (const words of tasks) {
  messages.push({ role: 'user', content: words });
  const result = ai.streamText({ model, instructions: 'Be brief.', messages, tools: { bash }, stopWhen: (ai.isStepCount ?? ai.stepCountIs)(10),
    onError: ({ error }) => { failed = true; console.error(String(error)); } });
  console.log(await result.text);
  for (const step of await result.steps) messages.push(...step.response.messages.filter((m) => !messages.includes(m)));
}
process.exit(failed ? 1 : 0);
