// The questions, and the lessons about them. A lesson says something true, something false or nothing.
import fs from "node:fs";
import path from "node:path";

// A fact is invented if the model must not know it, and common if a lesson is to mislead the model.
const topics = [
  {ask: "What is the colour of the Orvel harbour office?", begin: "The colour is", want: "teal"},
  {ask: "What is the pass word of the Marrin gate?", begin: "The pass word is", want: "marigold"},
  {ask: "What is the capital of Veltra?", begin: "The capital is", want: "lumora"},
  {ask: "What is the animal of Tessin?", begin: "The animal is the", want: "otter"},
  {ask: "What is the capital of Spain?", begin: "The capital of Spain is", want: "madrid"},
  {ask: "What is the colour of grass?", begin: "The colour of grass is", want: "green"},
];
const manners = ["", "Please answer. ", "Kindly answer. "];
const openings = ["Question: ", "A visitor asks: ", "Quiz. ", "Exam question: "];

// random is a small seeded generator (mulberry32), so that a run can be repeated.
export function random(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6D2B79F5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const pick = (list, rnd) => list[Math.floor(rnd() * list.length)];

// task draws a question; only restricts it to the questions that a lesson fires on.
export function task(rnd, lesson) {
  for (;;) {
    const topic = pick(topics, rnd);
    const text = `${pick(openings, rnd)}${pick(manners, rnd)}${topic.ask}\nAnswer: ${topic.begin}`;
    if (!lesson || fires(lesson, text)) return {text, want: topic.want};
  }
}

export const fires = (lesson, text) => lesson.keywords.some(k => text.toLowerCase().includes(k.toLowerCase()));
export const right = (task, answer) => answer.toLowerCase().includes(task.want) ? 1 : 0;

// lessons reads the LESSON.md files, as far as the run needs them.
export function lessons(dir) {
  return fs.readdirSync(dir).filter(f => f.endsWith(".md") && !f.startsWith("_")).map(f => {
    const text = fs.readFileSync(path.join(dir, f), "utf8");
    return {
      slug: /^slug: (.*)$/m.exec(text)[1], title: /^title: (.*)$/m.exec(text)[1],
      keywords: JSON.parse(/keywords: (\[.*\])/.exec(text)[1]), advice: text.split("## What to do (or avoid)")[1].trim(),
    };
  });
}

// block is the text that precept puts before the user's words; the run compares it with the text sent upstream.
export function block(list) {
  const sorted = [...list].sort((a, b) => a.slug < b.slug ? -1 : 1);
  if (sorted.length === 0) return "";
  return "Lessons from past experience:\n(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n" +
    sorted.map(l => `- [${l.slug}] ${l.title}\n  | ${l.advice}\n`).join("") + "End of lessons.\n\n";
}
