// Small Lua scripts, each with the answer that Redis gives. test/stores/redis/lua.test.ts runs them
// on a real server, sim/test/lua.test.ts on the simulator's Lua interpreter.

type LuaAnswer = string | number | null | readonly LuaAnswer[];

export interface LuaSnippet {
  readonly text: string;
  readonly args?: readonly string[];
  /** An answer, or a part of what the error says. */
  readonly answer: LuaAnswer | { readonly error: string };
}

const numbers: LuaSnippet[] = [
  { text: "return 3.99", answer: 3 },
  { text: "return -3.99", answer: -3 },
  { text: "return tostring(3.5)", answer: "3.5" },
  { text: "return tostring(10 / 2)", answer: "5" },
  { text: "return tostring(1e13)", answer: "10000000000000" },
  { text: "return tostring(99999999999999)", answer: "99999999999999" },
  { text: "return tostring(100000000000000)", answer: "1e+14" },
  { text: "return tostring(123456789012345)", answer: "1.2345678901234e+14" },
  { text: "return tostring(1 / 3)", answer: "0.33333333333333" },
  { text: "return tostring(0.00001)", answer: "1e-05" },
  { text: "return tostring(-0.5)", answer: "-0.5" },
  { text: "return tostring(1 / 0) .. tostring(-1 / 0)", answer: "inf-inf" },
  { text: "return string.format('%.0f', 9007199254740991)", answer: "9007199254740991" },
  { text: "return string.format('%.0f', 0.5) .. string.format('%.0f', 1.5)", answer: "02" },
  { text: "return string.format('%d of %s', 7.9, 'x')", answer: "7 of x" },
  { text: "return ARGV[1] + 1", args: ["41"], answer: 42 },
  { text: "return '0x10' + 0", answer: 16 },
  { text: "return ' 7 ' * 2", answer: 14 },
  { text: "return -7 % 3", answer: 2 },
  { text: "return 7 - 2 - 1", answer: 4 },
  { text: "return 2 + 3 * 4", answer: 14 },
  { text: "return 5.5 % 1 == 0.5", answer: 1 },
  { text: "return tonumber('12x')", answer: null },
  { text: "return tonumber('1e3')", answer: 1000 },
  { text: "return tonumber('')", answer: null },
  { text: "return tonumber(nil or 0)", answer: 0 },
  { text: "return math.max(3, 9, 2) + math.floor(-0.5)", answer: 8 },
  { text: "return 'x' + 1", answer: { error: "attempt to perform arithmetic on a string value" } },
  { text: "return nil + 1", answer: { error: "attempt to perform arithmetic on a nil value" } },
];

const texts: LuaSnippet[] = [
  { text: "return #ARGV[1]", args: ["é"], answer: 2 },
  { text: "return string.sub(ARGV[1], 3)", args: ["éa"], answer: "a" },
  { text: "return string.sub('abcdef', 2, 3)", answer: "bc" },
  { text: "return string.sub('abcdef', -2)", answer: "ef" },
  { text: "return string.sub('abcdef', 2, -2)", answer: "bcde" },
  { text: "return string.sub('abc', 5)", answer: "" },
  { text: "return string.sub('abc', 3, 2)", answer: "" },
  { text: "return string.sub('abc', 0, 1)", answer: "a" },
  { text: "return string.byte(':')", answer: 58 },
  { text: "return string.byte('') == nil", answer: 1 },
  { text: "return 1 .. 2", answer: "12" },
  { text: "return 'a' .. 'b' .. 1 + 1", answer: "ab2" },
  { text: "return 'a' < 'b' and 'Z' < 'a' and '10' < '9'", answer: 1 },
  { text: "return 'a' .. nil", answer: { error: "attempt to concatenate a nil value" } },
  { text: "return 1 < '2'", answer: { error: "attempt to compare number with string" } },
  { text: "return 1 == '1'", answer: null },
  { text: "return {string.find('a.c', '.', 1, true)}", answer: [2, 2] },
  { text: "return {string.find('abc', '(b)(c)')}", answer: [2, 3, "b", "c"] },
  { text: "return {string.find('abc', '', 9, true)}", answer: [4, 3] },
  { text: "return string.find('abc', 'x', 1, true)", answer: null },
  {
    text: "return {string.match('H12:3:abcrest', '^(%u)(%d+):(%d+):()')}",
    answer: ["H", "12", "3", 7],
  },
  { text: "return {string.match('L7x', '^([FL])(%d+)()')}", answer: ["L", "7", 3] },
  { text: "return {string.match('K7x', '^([FL])(%d+)()')}", answer: [] },
  { text: "return string.match('a12b', '%d+')", answer: "12" },
  { text: "return string.match('aaa', '^a-$')", answer: "aaa" },
  { text: "return {string.match('ab12', '^(%a*)(%d?)')}", answer: ["ab", "1"] },
  { text: "return string.match('x]y', '[^%]]+', 2)", answer: "y" },
  { text: "return string.match('3:abc', '^r?(%d+):')", answer: "3" },
  { text: "return string.match('f-9', '[a-f-]+')", answer: "f-" },
];

const tables: LuaSnippet[] = [
  { text: "return {1, nil, 3}", answer: [1] },
  { text: "return {'a', {'b', {}}, 2.7, true, 'z'}", answer: ["a", ["b", []], 2, 1, "z"] },
  { text: "return {'a', false, 'c'}", answer: ["a", null, "c"] },
  { text: "local t = {} t[2] = 'b' t[1] = 'a' return t", answer: ["a", "b"] },
  { text: "local t = {1, 2, 3} t[#t] = nil return #t", answer: 2 },
  { text: "local t = {n = 1, 'x'} return {t.n, t[1], t['n'], #t}", answer: [1, "x", 1, 1] },
  { text: "local t = {} t[#t + 1] = 5 t[#t + 1] = 6 return t", answer: [5, 6] },
  { text: "local n = 0 for _, v in ipairs({1, 2, nil, 4}) do n = n + v end return n", answer: 3 },
  { text: "return {unpack({1, 2, 3})}", answer: [1, 2, 3] },
  { text: "return {(unpack({1, 2, 3}))}", answer: [1] },
  { text: "return {unpack({1, 2}), 9}", answer: [1, 9] },
  { text: "return #KEYS + #ARGV", args: ["a", "b"], answer: 2 },
  { text: "return ARGV[3]", args: ["a"], answer: null },
  { text: "local t return t.x", answer: { error: "attempt to index" } },
];

const json: LuaSnippet[] = [
  { text: "return cjson.encode({'a', 'b\"c', nil})", answer: '["a","b\\"c"]' },
  { text: "return cjson.encode({ARGV[1]})", args: ["\u00e9"], answer: '["\u00e9"]' },
  { text: "return cjson.decode(ARGV[1])", args: ['["x","\u00e9"]'], answer: ["x", "\u00e9"] },
  { text: "return cjson.decode(cjson.encode({'a/b', '\\n'}))", answer: ["a/b", "\n"] },
  { text: "return type(cjson.decode('[1,[2]]')[2])", answer: "table" },
  { text: "return pcall(cjson.decode, '[') and 1 or 0", answer: 0 },
  { text: "return string.format('%016.0f', 42)", answer: "0000000000000042" },
];

const control: LuaSnippet[] = [
  { text: "local a, b, c = 1, 2 return {a, b, c == nil}", answer: [1, 2, 1] },
  { text: "local a, b = 1, 2 a, b = b, a return {a, b}", answer: [2, 1] },
  { text: "local t = {} for i = 1, 7, 3 do t[#t + 1] = i end return t", answer: [1, 4, 7] },
  { text: "local n = 0 for i = 3, 1, -1 do n = n * 10 + i end return n", answer: 321 },
  { text: "local n = 0 while true do n = n + 1 if n == 5 then break end end return n", answer: 5 },
  { text: "local x = 1 do local x = 2 end return x", answer: 1 },
  {
    text: "local function f(n) if n == 0 then return 0 end return n + f(n - 1) end return f(4)",
    answer: 10,
  },
  { text: "local n = 0 local function up() n = n + 1 end up() up() return n", answer: 2 },
  { text: "local f = function(a, b) return b, a end return {f(1, 2)}", answer: [2, 1] },
  { text: "return nil and 1 or 2", answer: 2 },
  { text: "return 0 and '' and 'yes'", answer: "yes" },
  { text: "return not nil == true", answer: 1 },
  {
    text: "if ARGV[1] == 'a' then return 1 elseif ARGV[1] == 'b' then return 2 else return 3 end",
    args: ["b"],
    answer: 2,
  },
  {
    text: "local ok, e = pcall(function() error('oh') end) return {ok, type(e)}",
    answer: [null, "string"],
  },
  {
    text: "local ok, a, b = pcall(function(x) return x, 2 end, 1) return {ok, a, b}",
    answer: [1, 1, 2],
  },
  {
    text: "return type(nil) .. type({}) .. type(type) .. type(1)",
    answer: "niltablefunctionnumber",
  },
  { text: "return", answer: null },
];

/** Commands on one key, `k`, which each script deletes first. */
const commands: LuaSnippet[] = [
  { text: "return redis.call('GET', 'k')", answer: null },
  { text: "return redis.call('GET', 'k') == false", answer: 1 },
  { text: "redis.call('SET', 'k', 12) return redis.call('GET', 'k')", answer: "12" },
  {
    text: "redis.call('SET', 'k', 1234567890123456) return redis.call('GET', 'k')",
    answer: "1234567890123456",
  },
  { text: "return redis.call('SET', 'k', 'x').ok", answer: "OK" },
  { text: "return redis.call('SET', 'k', 'x', 'PX', 1000 + 1)", answer: "OK" },
  {
    text: "redis.call('SET', 'k', 'x', 'PX', 5000) redis.call('SET', 'k', 'y') return redis.call('PTTL', 'k')",
    answer: -1,
  },
  { text: "return {redis.call('PTTL', 'k'), redis.call('PEXPIRE', 'k', 5)}", answer: [-2, 0] },
  {
    text: "redis.call('SET', 'k', '41') redis.call('INCR', 'k') return redis.call('GET', 'k')",
    answer: "42",
  },
  {
    text: "redis.call('SET', 'k', '9007199254740993') redis.call('INCR', 'k') return redis.call('GET', 'k')",
    answer: "9007199254740994",
  },
  {
    text: "redis.call('SET', 'k', 'x') return redis.call('INCR', 'k')",
    answer: { error: "ERR value is not an integer or out of range" },
  },
  {
    text: "redis.call('SADD', 'k', 'a') return redis.call('GET', 'k')",
    answer: { error: "WRONGTYPE" },
  },
  {
    text: "redis.call('SADD', 'k', 'a') local ok, e = pcall(redis.call, 'GET', 'k') return {ok, type(e), string.sub(e, 1, 9)}",
    answer: [null, "string", "WRONGTYPE"],
  },
  {
    text: "redis.call('SADD', 'k', 'a') return string.sub(redis.pcall('GET', 'k').err, 1, 9)",
    answer: "WRONGTYPE",
  },
  { text: "return redis.error_reply('MINE not so')", answer: { error: "MINE not so" } },
  { text: "return redis.call('SET', 'k', nil)", answer: { error: "must be strings or integers" } },
  {
    text: "return {redis.call('HSET', 'k', 'f', 'x'), redis.call('HSET', 'k', 'f', 'y'), redis.call('HGET', 'k', 'f'), redis.call('HGET', 'k', 'g'), redis.call('HLEN', 'k')}",
    answer: [1, 0, "y", null, 1],
  },
  {
    text: "redis.call('HSET', 'k', 'f', 'x') return {redis.call('HKEYS', 'k'), redis.call('HDEL', 'k', 'f'), redis.call('EXISTS', 'k'), redis.call('HKEYS', 'k')}",
    answer: [["f"], 1, 0, []],
  },
  {
    text: "return {redis.call('SADD', 'k', 'a'), redis.call('SADD', 'k', 'a'), redis.call('SMEMBERS', 'k'), redis.call('SREM', 'k', 'a', 'b'), redis.call('EXISTS', 'k')}",
    answer: [1, 0, ["a"], 1, 0],
  },
  {
    text: "for i, m in ipairs({'b', 'a', 'c'}) do redis.call('ZADD', 'k', i == 3 and '0' or '1', m) end return {redis.call('ZRANGE', 'k', 0, 1), redis.call('ZCARD', 'k'), redis.call('ZREVRANGEBYSCORE', 'k', 1, 1, 'LIMIT', 0, 1)}",
    answer: [["c", "a"], 3, ["b"]],
  },
  {
    text: "redis.call('SET', 'k', 'x') return {type(redis.pcall('HKEYS', 'k').err), #redis.pcall('SMEMBERS', 'k')}",
    answer: ["string", 0],
  },
  {
    text: "return {redis.call('ZADD', 'k', 0, 'a'), redis.call('ZADD', 'k', 0, 'a'), redis.call('ZREM', 'k', 'a'), redis.call('EXISTS', 'k')}",
    answer: [1, 0, 1, 0],
  },
  {
    text: "for _, m in ipairs({'b', 'c', 'a', 'B'}) do redis.call('ZADD', 'k', 0, m) end return {redis.call('ZRANGEBYLEX', 'k', '[a', '(c', 'LIMIT', 0, 5), redis.call('ZRANGEBYLEX', 'k', '-', '+', 'LIMIT', 1, 2)}",
    answer: [
      ["a", "b"],
      ["a", "b"],
    ],
  },
  {
    text: "redis.call('ZADD', 'k', 0, 'a') return {redis.call('ZRANDMEMBER', 'k', 3), redis.call('ZRANDMEMBER', 'none', 3)}",
    answer: [["a"], []],
  },
  { text: "redis.call('SET', 'k', 'x') return redis.call('DEL', 'k', 'none')", answer: 1 },
  {
    text: "local t = redis.call('TIME') return {#t, type(t[1]), t[1] * 1000 > 0}",
    answer: [2, "string", 1],
  },
  { text: "return redis.call('PUBLISH', 'nobody', 'x')", answer: 0 },
];

export const luaSnippets: readonly LuaSnippet[] = [
  ...numbers,
  ...texts,
  ...tables,
  ...json,
  ...control,
  ...commands.map((snippet) => ({ ...snippet, text: `redis.call('DEL', 'k') ${snippet.text}` })),
];
