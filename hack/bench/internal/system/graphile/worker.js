// Runs graphile-worker and writes what happens to each message on standard output: "r" when it is ready, "d" and the
// payload when a task has it, "a" and the payload when the job is gone from the table.
import { EventEmitter } from "node:events";
import { run } from "graphile-worker";

let lines = [];
const tell = (line) => {
  if (lines.push(line) === 1) {
    setImmediate(() => {
      process.stdout.write(lines.join("\n") + "\n");
      lines = [];
    });
  }
};

const quiet = { info() {}, debug() {}, warn: console.error, error: console.error };
const events = new EventEmitter();
events.on("job:complete", ({ job, error }) => {
  if (error) console.error(error);
  else tell("a" + job.payload.body);
});

const runner = await run({
  connectionString: process.env.DATABASE_URL,
  concurrency: 8,
  maxPoolSize: 9,
  events,
  logger: new (await import("graphile-worker")).Logger(() => (level, message) => quiet[level]?.(message)),
  taskList: { bench: async ({ body }) => tell("d" + body) },
});
tell("r");
await runner.promise;
