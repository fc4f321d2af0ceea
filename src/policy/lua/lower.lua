-- Follows a kernel of a window: lowers what is left to what the vendor says is left.
local function lower(key)
  if limit == no_limit then return end
  local remaining, state = cost, {}
  cost = 1
  local left = check(key, limit, false, state, 1)
  if not refusal and state[1] ~= foreign and left > remaining then
    cost = left - remaining
    check(key, 1, true, state, 1)
  end
  cost = remaining
end
