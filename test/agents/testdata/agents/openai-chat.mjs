// The official SDK's tool runner over chat completions, streamed.
import { tasks, load, schema, shell } from './shell.mjs';

const { OpenAI } = load('openai');
const client = new OpenAI();
let messages = [{ role: 'developer', content: 'Be brief.' }];
for (const words of tasks) {
  const runner = client.chat.completions.runTools({
    model: 'mock-model', stream: true, stream_options: { include_usage: true },
    messages: [...messages, { role: 'user', content: words }],
    tools: [{ type: 'function', function: { name: 'bash', description: 'Run a command.', parse: JSON.parse, function: shell, parameters: schema } }],
  });
  console.log(await runner.finalContent());
  messages = runner.messages;
}
