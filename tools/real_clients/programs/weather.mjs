// What the Node programs share: the question, the tool, and how a loop is reported.

export const PROMPT = "What is the weather in Paris and Zurich?";
export const SLOW_PROMPT = "Tell me a slow story.";
export const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" }, unit: { type: "string" } },
  required: ["city", "unit"],
  additionalProperties: false,
};

export const getWeather = ({ city, unit }) => `18 degrees ${unit} and light rain in ${city}`;

// A sum of what the library reports: cached tokens are part of the input, reasoning is part of the output.
export class Tokens {
  sum = null;

  add(input, output) {
    if (input === undefined || output === undefined) return;
    this.sum = {
      input_tokens: (this.sum?.input_tokens ?? 0) + input,
      output_tokens: (this.sum?.output_tokens ?? 0) + output,
    };
  }
}

// Run one of the two: `loop` returns the final answer, `slow` yields text as it comes.
export async function main(loop, slow) {
  const mode = process.argv[2];
  if (mode === "loop") {
    const tokens = new Tokens();
    console.log(await loop(tokens));
    console.log(JSON.stringify(tokens.sum));
  } else if (mode === "slow") {
    for await (const text of slow()) process.stdout.write(text);
    process.stdout.write("\n");
  } else {
    console.error(`usage: ${process.argv[1]} loop|slow`);
    process.exitCode = 1;
  }
}
