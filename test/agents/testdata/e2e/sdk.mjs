// An agent on the official SDK: one shell tool, streamed or not. Usage: sdk.mjs stream|plain TASK
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';

const { OpenAI } = createRequire(process.env.MODULES + '/')('openai');
const [mode, task] = process.argv.slice(2);
const client = new OpenAI({ apiKey: 'sk-test' });
const tools = [{ type: 'function', function: { name: 'bash', description: 'Run a command.',
  parameters: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] } } }];
const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: task }];

async function ask() {
  const request = { model: 'gpt-test', messages, tools };
  if (mode === 'plain') return (await client.chat.completions.create(request)).choices[0].message;
  return client.chat.completions.stream({ ...request, stream_options: { include_usage: true } }).finalMessage();
}

for (let turn = 0; turn < 12; turn++) {
  const message = await ask();
  if (!message.tool_calls?.length) {
    console.log(message.content);
    process.exit(0);
  }
  messages.push({ role: 'assistant', content: message.content || null,
    tool_calls: message.tool_calls.map(({ id, function: f }) => ({ id, type: 'function', function: { name: f.name, arguments: f.arguments } })) });
  for (const call of message.tool_calls) {
    const done = spawnSync('sh', ['-c', JSON.parse(call.function.arguments).command], { encoding: 'utf8', cwd: process.env.WORK });
    messages.push({ role: 'tool', tool_call_id: call.id, content: `${done.stdout}${done.stderr}\nExit code: ${done.status}` });
  }
}
process.exit(3);
