// Compares precept's report with the true effects for a real model. True effects: the model answers the same question
// with and without a lesson, with the same seed. Then sessions go through precept. A tool call checks each answer, so
// that every session shows errors, and a share of the sessions (RATED) gets a reward. Usage: node run.mjs MODEL.gguf
// PRECEPT LESSONS; SESSIONS, PAIRS, RATED and SEED come from the environment.
import {spawn} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {block, fires, lessons, random, right, task} from "./world.mjs";

const [modelFile, precept, lessonDir] = process.argv.slice(2);
const sessions = Number(process.env.SESSIONS ?? 2000), pairs = Number(process.env.PAIRS ?? 150), seed = Number(process.env.SEED ?? 1);
const rated = Number(process.env.RATED ?? 0.25);
const parallel = 4, token = "real-run-token-0123456789";
const all = lessons(lessonDir), children = [];
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "precept-real-"));

function child(command, args, env) {
  const p = spawn(command, args, {stdio: ["ignore", "pipe", "inherit"], env: {...process.env, ...env}});
  children.push(p);
  return p;
}

const ask = (base, text, seed, headers = {}) => complete(base, [{role: "user", content: text}], 5, seed, headers);

async function complete(base, messages, max_tokens, seed, headers) {
  const res = await fetch(base + "/v1/chat/completions", {
    method: "POST", headers: {"content-type": "application/json", ...headers},
    body: JSON.stringify({model: "gemma-3-270m", messages, seed, temperature: 0.7, max_tokens, tools: [checkTool]}),
  });
  if (!res.ok) throw new Error(`${res.status} ${await res.text()}`);
  return (await res.json()).choices[0].message.content;
}

const checkTool = {type: "function", function: {name: "check_answer", parameters: {type: "object", properties: {answer: {type: "string"}}}}};

// check sends the result from the tool call that checks an answer, and reads one token from the reply.
const check = (base, text, answer, correct, seed, headers) => complete(base, [
  {role: "user", content: text},
  {role: "assistant", content: null, tool_calls: [{id: "call_1", type: "function", function: {name: "check_answer", arguments: JSON.stringify({answer})}}]},
  {role: "tool", tool_call_id: "call_1", content: correct ? "The answer is correct." : "error: answer check failed: the answer is wrong"},
], 1, seed, headers);

// each calls work with each number below n, several in parallel.
async function each(n, what, work) {
  let next = 0;
  await Promise.all(Array.from({length: parallel}, async () => {
    while (next < n) {
      const i = next++;
      if (i % 250 === 0) console.error(`${what}: ${i} of ${n}`);
      await work(i);
    }
  }));
}

// truth returns a lesson's true effect. The question's other lessons are present as often as precept inserts them: 95%
// of the sessions are not control sessions, and 80% of the picks are not withheld.
async function truth(upstream, lesson) {
  const differences = [];
  await each(pairs, lesson.slug, async i => {
    const rnd = random(seed * 1e6 + i), t = task(rnd, lesson);
    const others = all.filter(l => l !== lesson && fires(l, t.text) && rnd() < 0.95 * 0.8);
    const [w, wo] = await Promise.all([[...others, lesson], others].map(list => ask(upstream, block(list) + t.text, i)));
    differences.push(right(t, w) - right(t, wo));
  });
  const mean = differences.reduce((a, b) => a + b, 0) / pairs;
  const variance = differences.reduce((a, d) => a + (d - mean) ** 2, 0) / (pairs - 1);
  return {mean, error: Math.sqrt(variance / pairs)};
}

async function started(dir, p) {
  for (let i = 0; i < 300; i++) {
    if (p.exitCode !== null) throw new Error("precept has ended");
    const file = path.join(dir, "run.json");
    if (fs.existsSync(file)) return JSON.parse(fs.readFileSync(file, "utf8"));
    await new Promise(r => setTimeout(r, 100));
  }
  throw new Error("precept does not start");
}

async function main() {
  const model = child(process.execPath, ["model.mjs", modelFile]);
  const port = await new Promise((resolve, reject) => {
    model.stdout.on("data", d => { const m = /^(\d+)$/m.exec(String(d)); if (m) resolve(m[1]); });
    model.on("exit", () => reject(new Error("the model has ended")));
  });
  const upstream = `http://127.0.0.1:${port}`;
  const truths = {};
  for (const lesson of all) truths[lesson.slug] = await truth(upstream, lesson);

  const data = path.join(scratch, "data"), used = path.join(scratch, "lessons"); // precept writes its log beside the lessons
  fs.cpSync(lessonDir, used, {recursive: true});
  const proxy = child(precept, ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", data, "--lessons", used,
    "--upstream", upstream + "/v1", "--reward-close-after", "2s"], {PRECEPT_ADMIN_TOKEN: token, OPENAI_BASE_URL: ""});
  const at = await started(data, proxy);
  let gained = 0, done = false;
  const report = async () => await (await fetch(at.admin + "/api/report", {headers: {authorization: "Bearer " + token}})).json();
  const proofs = {};
  const look = async () => { // records the first proof for each kind and lesson
    for (const l of (await report()).lessons) {
      const p = proofs[l.slug] ??= {}, o = (l.outcomes ?? []).find(o => o.name === "recurrence");
      if (o && String(o.verdict).startsWith("proven")) p.recurrence ??= o.n_injected + o.n_withheld;
      if (String(l.verdict).startsWith("proven")) p.reward ??= l.n_injected + l.n_withheld;
    }
  };
  const looking = (async () => { while (!done) { await look(); await new Promise(r => setTimeout(r, 2000)); } })();
  await each(sessions, "sessions", async i => {
    const t = task(random(seed * 7e6 + i));
    const name = `real-${seed}-${i}`;
    const answer = await ask(at.data, t.text, 1e6 + i, {"Precept-Session": name});
    const y = right(t, answer);
    gained += y;
    await check(at.data, t.text, answer, y === 1, 1e6 + i, {"Precept-Session": name});
    if (random(seed * 3e6 + i)() >= rated) return;
    const res = await fetch(at.data + "/v1/feedback", {
      method: "POST", headers: {"content-type": "application/json"},
      body: JSON.stringify({session_id: name, source: "system", type: "score", score: y}),
    });
    if (res.status !== 202) throw new Error(`feedback: ${res.status} ${await res.text()}`);
  });
  await new Promise(r => setTimeout(r, 8000)); // the close age, and the closer's next round
  done = true;
  await looking;
  await look();
  table(truths, await report(), gained / sessions);
  speeds(proofs);
}

// points limits effects to 100 points, as the report does.
const points = x => x === null || x === undefined ? "-" : (x >= 0 ? "+" : "") + (100 * Math.max(-1, Math.min(1, x))).toFixed(1);

function table(truths, report, mean) {
  const rows = report.lessons.map(l => [l.slug, `${points(truths[l.slug].mean)} ± ${(100 * truths[l.slug].error).toFixed(1)}`, points(l.effect),
    l.effect === null ? "-" : `${points(l.lo)} to ${points(l.hi)}`, l.n_injected, l.n_withheld, l.verdict]);
  rows.sort((a, b) => parseFloat(b[1]) - parseFloat(a[1]));
  const head = ["lesson", "truth", "report", "95% interval", "injected", "withheld", "verdict"];
  const widths = head.map((h, i) => Math.max(h.length, ...rows.map(r => String(r[i]).length)));
  for (const r of [head, ...rows]) console.log(r.map((c, i) => String(c).padEnd(widths[i])).join("  ").trimEnd());
  console.log(`${sessions} sessions, ${pairs} pairs a lesson, seed ${seed}; right in ${(100 * mean).toFixed(1)}% of the sessions`);
}

// speeds prints how many picks it took to prove the lower recurrence and the effect on the reward.
function speeds(proofs) {
  console.log(`\nEvery session has outcomes; ${100 * rated}% have a reward. Picks until the first proof:`);
  const rows = [["lesson", "recurrence", "reward"], ...Object.entries(proofs).filter(([, p]) => p.recurrence || p.reward)
    .map(([slug, p]) => [slug, String(p.recurrence ?? "-"), p.reward ? `${p.reward} rewarded` : "-"])];
  for (const r of rows) console.log(r[0].padEnd(16) + r[1].padEnd(12) + r[2]);
}

let failed = false;
try { await main(); } catch (err) { failed = true; console.error(err); }
await Promise.all(children.map(p => p.exitCode !== null ? null : new Promise(ended => { p.on("exit", ended); p.kill(); })));
fs.rmSync(scratch, {recursive: true, force: true});
process.exit(failed ? 1 : 0);
