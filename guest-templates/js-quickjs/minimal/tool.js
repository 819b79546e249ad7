// {{name}}: counts the words of a text. The functions are declared in wit/tool.wit.

export const words = {
  count: (text) => text.split(/\s+/).filter(Boolean).length,
};
