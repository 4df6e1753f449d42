-- SPDX-License-Identifier: Apache-2.0
--
-- Decodes GENEVE packets between hosts of SNF (rules N9 to N11 of protocol.md).
--
--   tshark -X lua_script:proto/snf.lua -r capture.pcap
--   cp proto/snf.lua ~/.local/lib/wireshark/plugins/      (for Wireshark, too)

local snf = Proto("snf", "SNF between hosts")

local CLASS = 0xff53
local PROTOCOL = 0x88b5
local KINDS = {[0x82] = "piece", [0x83] = "ack", [0x84] = "probe"}
local CHANNELS = {[0] = "told", [1] = "first", [2] = "second", [3] = "third",
                  [4] = "words"}

local f = snf.fields
f.network = ProtoField.uint24("snf.network", "Network", base.HEX)
f.key = ProtoField.uint64("snf.key", "Key", base.HEX)
f.kind = ProtoField.uint8("snf.kind", "Kind", base.HEX, KINDS)
f.channel = ProtoField.uint32("snf.channel", "Channel", base.DEC, CHANNELS)
f.number = ProtoField.uint64("snf.number", "Number of the datagram")
f.offset = ProtoField.uint64("snf.offset", "Offset in the channel")
f.bytes = ProtoField.bytes("snf.bytes", "Piece of the channel")
f.received = ProtoField.uint64("snf.received", "Received")
f.consumed = ProtoField.uint64("snf.consumed", "Consumed")
f.first = ProtoField.uint64("snf.first", "First number received")
f.last = ProtoField.uint64("snf.last", "Last number received")
f.probed = ProtoField.uint32("snf.probed", "Bytes of the packet")
f.answer = ProtoField.bool("snf.answer", "Answer")

local bad = ProtoExpert.new("snf.bad", "Options that cannot be",
                            expert.group.MALFORMED, expert.severity.ERROR)
snf.experts = {bad}

-- Adds the fields of an option's data; returns a line about it, or nil.
local function option(tree, type, data)
  if type == 0x81 and data:len() == 8 then
    tree:add(f.key, data())
    return ""
  end
  if KINDS[type] then tree:add(f.kind, type) end
  if type == 0x82 and data:len() == 20 then
    tree:add(f.channel, data(0, 4))
    tree:add(f.number, data(4, 8))
    tree:add(f.offset, data(12, 8))
    return string.format("piece %s of %s from %s", data(4, 8):uint64(),
                         CHANNELS[data(0, 4):uint()] or "?",
                         data(12, 8):uint64())
  end
  if type == 0x83 and data:len() >= 20 and (data:len() - 20) % 16 == 0 then
    tree:add(f.channel, data(0, 4))
    tree:add(f.received, data(4, 8))
    tree:add(f.consumed, data(12, 8))
    for at = 20, data:len() - 16, 16 do
      tree:add(f.first, data(at, 8))
      tree:add(f.last, data(at + 8, 8))
    end
    return string.format("ack of %s up to %s",
                         CHANNELS[data(0, 4):uint()] or "?",
                         data(4, 8):uint64())
  end
  if type == 0x84 and data:len() == 8 then
    tree:add(f.probed, data(0, 4))
    tree:add(f.answer, data(4, 4))
    return string.format("%s of %d bytes",
                         data(4, 4):uint() == 0 and "probe" or "answer",
                         data(0, 4):uint())
  end
  return nil
end

local ports = DissectorTable.get("udp.port")
local geneve = ports:get_dissector(6081)

function snf.dissector(buffer, info, tree)
  local is_ours = buffer:len() >= 12 and buffer(2, 2):uint() == PROTOCOL and
                  buffer(8, 2):uint() == CLASS
  geneve:call(buffer, info, tree)
  if not is_ours then return end
  local size = 8 + (buffer(0, 1):uint() % 64) * 4
  local branch = tree:add(snf, buffer())
  branch:add(f.network, buffer(4, 3))
  local text = nil
  local at = 8
  while at + 4 <= math.min(size, buffer:len()) do
    local data = (buffer(at + 3, 1):uint() % 32) * 4
    if at + 4 + data > math.min(size, buffer:len()) then break end
    local said = option(branch, buffer(at + 2, 1):uint(),
                        buffer(at + 4, data):tvb())
    if not said then break end
    text = said
    at = at + 4 + data
  end
  if at ~= size or not text or text == "" then
    branch:add_proto_expert_info(bad)
    text = "options that cannot be"
  elseif buffer:len() > size then
    branch:add(f.bytes, buffer(size))
  end
  info.cols.protocol = "SNF"
  info.cols.info = text
end

ports:add(6081, snf)
