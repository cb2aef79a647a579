package bandit

import "precept/bandit/trial"

// maxAgents is the maximum number of agents of a tenant that are counted by name. A request names its agent, so
// without a bound a client with a name for each job could add counters without end.
const maxAgents = 32

// otherAgents is the name of all agents beyond the first maxAgents of a tenant.
const otherAgents = "other"

// BoundNames bounds the number of agents and of models with counters. If the tenant has too many models, Admit replaces
// the model of a closing session by trial.OtherModels, also in the category. If the tenant has too many agents, Admit
// replaces the agent in the category by otherAgents. Without a bound, requests could add counters without end, because
// a request names its agent and its model.
func (c *Chooser) BoundNames(a *trial.Assignment) {
	a.Model = c.measured.CountedModelName(a.Model)
	if a.Category == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a.Category = c.countedCategory(a)
	agent, _, _ := trial.CategoryParts(a.Category)
	c.addAgent(agent)
}

// countedCategory returns the category of a session with the agent and the model under which the session is counted.
// The caller holds mu.
func (c *Chooser) countedCategory(a *trial.Assignment) string {
	category := c.withCountedAgent(a.Category)
	if agent, model, length := trial.CategoryParts(category); a.Model == trial.OtherModels && length != "" && model != a.Model {
		return trial.Category(agent, a.Model, length)
	}
	return category
}

// withCountedAgent returns the category with the counted name of its agent: the name of the agent, or otherAgents if
// the tenant has maxAgents other agents. The caller holds mu.
func (c *Chooser) withCountedAgent(category string) string {
	agent, model, length := trial.CategoryParts(category)
	if _, known := c.agents[agent]; known || len(c.agents) < maxAgents || agent == otherAgents || length == "" {
		return category
	}
	return trial.Category(otherAgents, model, length)
}

// addAgent adds the name of a counted agent. The caller holds mu.
func (c *Chooser) addAgent(agent string) {
	if agent != otherAgents {
		c.agents[agent] = struct{}{}
	}
}
