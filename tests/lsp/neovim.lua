-- Drives the language server from Neovim: findings, a quick fix, typing. Prints one JSON object.
local told = {}
local root = vim.fn.getcwd()
vim.cmd('edit train.py')
local buffer = vim.api.nvim_get_current_buf()
local id = vim.lsp.start_client({ name = 'remat', cmd = vim.json.decode(vim.env.REMAT_SERVER), root_dir = root })
vim.lsp.buf_attach_client(buffer, id)

local function shown()
  return vim.tbl_map(function(d)
    local line = vim.api.nvim_buf_get_lines(buffer, d.lnum, d.lnum + 1, false)[1] or ''
    return { line = d.lnum, text = line:sub(d.col + 1, d.end_col), message = d.message, code = d.code, source = d.source }
  end, vim.diagnostic.get(buffer))
end

local function wait_for(count)
  return vim.wait(20000, function() return #vim.diagnostic.get(buffer) == count end, 20)
end

local function ask(method, params)
  local replies = vim.lsp.buf_request_sync(buffer, method, params, 20000) or {}
  return replies[id] and replies[id].result
end

told.first = wait_for(1) and shown()
told.encoding = vim.lsp.get_client_by_id(id).offset_encoding

local place = { line = told.first[1].line, character = 0 }
local diagnostics = vim.lsp.diagnostic.get_line_diagnostics(buffer, told.first[1].line)
local document = { uri = vim.uri_from_bufnr(buffer) }
local actions = ask('textDocument/codeAction', {
  textDocument = document,
  range = diagnostics[1] and diagnostics[1].range or { start = place, ['end'] = place },
  context = { diagnostics = diagnostics },
})
told.titles = vim.tbl_map(function(a) return a.title end, actions)
vim.lsp.util.apply_workspace_edit(actions[1].edit, told.encoding)
told.gone = wait_for(0)
told.fixed = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)

local last = vim.api.nvim_buf_line_count(buffer)
vim.api.nvim_buf_set_lines(buffer, last, last, false, { "s = '𝄞𝄞'; z = checkpoint(other, x)" })
told.typed = wait_for(1) and shown()
local hover = ask('textDocument/hover', { textDocument = document, position = diagnostics and { line = last, character = 20 } })
told.hover = hover and hover.contents.value:sub(1, 40)

vim.cmd('write')
vim.fn.writefile({ vim.json.encode(told) }, vim.env.REMAT_TOLD)
vim.lsp.stop_client(id)
vim.cmd('qall!')
