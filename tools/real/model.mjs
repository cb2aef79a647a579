// A small real model behind POST /v1/chat/completions. It completes the newest user message as text, as a base model
// does. Usage: node model.mjs FILE.gguf; it prints the port.
import http from "node:http";
import {getLlama, LlamaCompletion} from "node-llama-cpp";

const parallel = 4; // prompts per batch
const llama = await getLlama({gpu: false, maxThreads: 2, logLevel: "error"});
const model = await llama.loadModel({modelPath: process.argv[2]});
const context = await model.createContext({contextSize: 768, sequences: parallel, threads: 2});
const idle = Array.from({length: parallel}, () => new LlamaCompletion({contextSequence: context.getSequence()}));
const waiting = [];

async function complete(prompt, options) {
  const worker = idle.pop() ?? await new Promise(resolve => waiting.push(resolve));
  try {
    return await worker.generateCompletion(prompt, options);
  } finally {
    const next = waiting.shift();
    if (next) next(worker); else idle.push(worker);
  }
}

async function answer(req, res) {
  let body = "";
  for await (const chunk of req) body += chunk;
  const asked = JSON.parse(body);
  const prompt = asked.messages.filter(m => m.role === "user").at(-1).content;
  const text = await complete(prompt, {
    maxTokens: asked.max_tokens ?? 5, temperature: asked.temperature ?? 0.7, seed: asked.seed ?? 0, customStopTriggers: ["\n"],
  });
  const prompt_tokens = model.tokenize(prompt).length, completion_tokens = model.tokenize(text).length;
  res.writeHead(200, {"content-type": "application/json"});
  res.end(JSON.stringify({
    id: "chatcmpl-" + Math.random().toString(36).slice(2), object: "chat.completion", model: asked.model,
    choices: [{index: 0, message: {role: "assistant", content: text}, finish_reason: "stop"}],
    usage: {prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens},
  }));
}

const server = http.createServer((req, res) => answer(req, res).catch(err => {
  res.writeHead(500, {"content-type": "application/json"});
  res.end(JSON.stringify({error: {message: String(err)}}));
}));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
