// A hand-written loop around ChatOpenAI with bound tools; API selects the API. It does not stream.
import { tasks, api, load, shell } from './shell.mjs';

const { ChatOpenAI } = load('@langchain/openai');
const { tool } = load('@langchain/core/tools');
const { SystemMessage, HumanMessage } = load('@langchain/core/messages');
const { z } = load('zod');
const bash = tool(async (a) => shell(a), { name: 'bash', description: 'Run a command.', schema: z.object({ command: z.string() }) });
const model = new ChatOpenAI({ model: 'mock-model', useResponsesApi: api === 'responses' }).bindTools([bash]);
const messages = [new SystemMessage('Be brief.')];

for (const words of tasks) {
  messages.push(new HumanMessage(words));
  for (let turn = 0; turn < 12; turn++) {
    const reply = await model.invoke(messages);
    messages.push(reply);
    if (!reply.tool_calls?.length) {
      console.log(reply.text ?? reply.content);
      break;
    }
    for (const call of reply.tool_calls) messages.push(await bash.invoke(call));
  }
}
