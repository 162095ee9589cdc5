/** The page's generated types agree with the description of the interface (`make generate`). */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

interface Schema {
  properties?: Record<string, Schema>;
  required?: string[];
}

const { schemas } = JSON.parse(readFileSync("../crates/bindings/kubist-server/src/openapi.json", "utf8")).components as {
  schemas: Record<string, Schema>;
};
const source = readFileSync("src/generated/query.ts", "utf8");

/** The fields of an interface; optional ones end in a question mark. */
function declared(name: string): Set<string> {
  const found = source.match(new RegExp(`^export interface ${name}(?: extends (\\w+))? \\{\\n([^}]*)^\\}`, "m"));
  assert.ok(found, `${name} is not declared`);
  const fields = [...found[2].matchAll(/^  (\w+\??):/gm)].map(([, field]) => field);
  return new Set([...(found[1] ? declared(found[1]) : []), ...fields]);
}

test("the types have the fields of the description", () => {
  let compared = 0;
  for (const [name, { properties, required }] of Object.entries(schemas)) {
    if (!properties || name === "Problem") continue;
    const described = Object.keys(properties).map((field) => (required?.includes(field) ? field : `${field}?`));
    assert.deepEqual([...declared(name)].sort(), described.sort(), name);
    compared++;
  }
  assert.ok(compared >= 8);
});
