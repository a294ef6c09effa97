-- Edits a shader in Neovim, with `coopcheck lsp`, and writes down what the editor shows.
-- Environment: COOPCHECK, the program; SHADER, the file.

local function say(...)
  io.stdout:write(table.concat({ ... }, " "), "\n")
end

local function wait(what, condition)
  if not vim.wait(60000, condition, 20) then
    say("waited in vain for", what)
    vim.cmd("cquit 1")
  end
end

local function show()
  for _, found in ipairs(vim.diagnostic.get(0)) do
    say("line", found.lnum + 1, found.code or found.source, vim.split(found.message, "\n")[1])
  end
end

local function ask(method, line, column)
  vim.api.nvim_win_set_cursor(0, { line, column })
  local params = vim.lsp.util.make_position_params(0, "utf-16")
  local answers = vim.lsp.buf_request_sync(0, method, params, 60000)
  for _, answer in pairs(answers or {}) do
    return answer.result
  end
end

vim.cmd("edit " .. vim.env.SHADER)
vim.lsp.start({ name = "coopcheck", cmd = { vim.env.COOPCHECK, "lsp" }, root_dir = vim.fs.dirname(vim.env.SHADER) })
wait("findings", function() return #vim.diagnostic.get(0) > 0 end)
show()
say("hover:", ask("textDocument/hover", 29, 12).contents.value)
say("hover:", ask("textDocument/hover", 26, 13).contents.value)
say("definition: line", ask("textDocument/definition", 27, 13)[1].range.start.line + 1)

-- Without the condition all invocations execute what is below.
vim.api.nvim_buf_set_lines(0, 25, 26, false, { "        {" })
wait("no finding", function() return #vim.diagnostic.get(0) == 0 end)
say("no finding")
vim.api.nvim_buf_set_lines(0, 25, 26, false, { "        if (!nothing) {" })
wait("the compiler's message", function() return #vim.diagnostic.get(0) > 0 end)
show()
vim.cmd("qall!")
