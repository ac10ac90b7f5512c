// Colours as points, so that nearest neighbors can be seen.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32, deflateSync } from "node:zlib";

/** Returns a picture of one colour, 16 × 16, as PNG. */
export function png([red, green, blue]) {
  const chunk = (kind, data) => {
    const body = Buffer.concat([Buffer.from(kind, "latin1"), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body) >>> 0);
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.from([0, 0, 0, 16, 0, 0, 0, 16, 8, 2, 0, 0, 0]);
  const row = Buffer.concat([Buffer.from([0]), Buffer.concat(Array(16).fill(Buffer.from([red, green, blue])))]);
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", head),
    chunk("IDAT", deflateSync(Buffer.concat(Array(16).fill(row)))),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/** Writes `colours.csv` and a picture for each point. The embedding is the colour, so neighbors look alike. */
export function colours(folder) {
  const classes = {
    red: [210, 60, 50],
    green: [60, 170, 80],
    blue: [60, 90, 200],
    "<b>grey</b> & co": [130, 130, 130],
  };
  const lines = ["id,label,r,g,b"];
  let seed = 7;
  const random = () => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed / 2147483648;
  };
  mkdirSync(join(folder, "pictures"));
  let number = 0;
  for (let i = 0; i < 100; i++) {
    for (const [name, colour] of Object.entries(classes)) {
      const mixed = colour.map((part) => Math.max(0, Math.min(255, Math.round(part + 110 * (random() - 0.5)))));
      const id = `picture-${number++}`;
      writeFileSync(join(folder, "pictures", `${id}.png`), png(mixed));
      lines.push(`${id},"${name}",${mixed.map((part) => part / 255).join(",")}`);
    }
  }
  writeFileSync(join(folder, "colours.csv"), `${lines.join("\n")}\n`);
}
