// The official SDK over the responses API, streamed. With STORED the provider keeps the history, and only new items are
// sent.
import { tasks, load, schema, shell } from './shell.mjs';

const { OpenAI } = load('openai');
const client = new OpenAI();
const stored = !!process.env.STORED;
const tools = [{ type: 'function', name: 'bash', description: 'Run a command.', strict: false, parameters: schema }];
let history = [], fresh = [], previous;

for (const words of tasks) {
  fresh.push({ role: 'user', content: words });
  for (let turn = 0; turn < 12; turn++) {
    history.push(...fresh);
    const stream = client.responses.stream({ model: 'mock-model', instructions: 'Be brief.', tools,
      ...(stored ? { input: fresh, previous_response_id: previous } : { input: history, store: false }) });
    const reply = await stream.finalResponse();
    previous = reply.id;
    history.push(...reply.output.map(({ parsed_arguments, ...item }) => item));
    const calls = reply.output.filter((item) => item.type === 'function_call');
    fresh = calls.map((c) => ({ type: 'function_call_output', call_id: c.call_id, output: shell(JSON.parse(c.arguments)) }));
    if (!calls.length) {
      console.log(reply.output_text);
      break;
    }
  }
}
