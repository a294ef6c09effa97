// How SPIR-V assembly is coloured.
import { StreamLanguage } from "@codemirror/language";

export const assembly = StreamLanguage.define({
  name: "spirv",
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^;.*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/^%[\w$]+/)) return stream.match(/^\s*=/, false) ? "variableName.definition" : "variableName";
    if (stream.match(/^Op[A-Z]\w*/)) return "keyword";
    if (stream.match(/^!?-?(?:0x[\da-fA-F.p+-]+|\d[\w.+-]*)/)) return "number";
    if (stream.match(/^[A-Za-z_|]\w*/)) return "typeName";
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: ";" } },
});
