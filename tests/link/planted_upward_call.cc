// Proves that the link test sees what it is there for: a lower layer that calls something only an upper one defines.
namespace ramcore {
int definedByAnUpperLayer();
int callsUpward() { return definedByAnUpperLayer(); }
}  // namespace ramcore
